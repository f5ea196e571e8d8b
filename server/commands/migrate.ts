import { configFromOptions, configOptions } from '../command-line.ts'
import { defineCommand } from './command.ts'
import { jsonOption } from './connection.ts'

export const migrate = defineCommand({
  name: 'migrate',
  usage: '',
  summary: 'bring the event log up to date without starting the server',
  details: ['A copy of the log as it was is made beside it first. A start of the server does the same.'],
  options: { ...configOptions, ...jsonOption },
  examples: [['migrate --home /data', 'before a new version of the server is started']],
  run: async ({ values, env, out }) => {
    const { migrateLog } = await import('../event-log/sqlite/migrate-log.js')
    const { home } = configFromOptions(values, env).config
    const { from, to } = migrateLog(home)
    const what = from === to ? `has version ${to} already` : `was brought from version ${from} to ${to}`
    if (values.json) out.json({ home, from, to })
    else out.line(`The event log in ${home} ${what}`)
  }
})
