import { configFromOptions, configOptions } from '../command-line.ts'
import { defineCommand } from './command.ts'
import { jsonOption } from './connection.ts'

export const backup = defineCommand({
  name: 'backup',
  usage: 'FILE',
  summary: 'copy the event log into a new file, also while the server runs',
  details: ['The copy is read from end to end before the command says that it is there (docs/storage.md).'],
  options: { ...configOptions, ...jsonOption },
  examples: [['backup /backups/toolwright.db', 'the log of ~/.toolwright']],
  run: async ({ values, positionals, env, out }) => {
    const { backupLog } = await import('../event-log/sqlite/backup-log.js')
    const [file = ''] = positionals
    const { sessions, events } = await backupLog(configFromOptions(values, env).config.home, file)
    if (values.json) out.json({ file, sessions, events })
    else out.line(`${file}: ${sessions} sessions, ${events} events, verified`)
  }
})
