import { configFromOptions, configOptions } from '../command-line.ts'
import { configRows, showConfig } from '../config/show.ts'
import { defineCommand } from './command.ts'
import { jsonOption } from './connection.ts'

export const config = defineCommand({
  name: 'config',
  usage: '',
  summary: 'print every setting with its effective value and where that comes from',
  details: ['Secrets are masked. It is what `serve` with the same options and environment would run with.'],
  options: { ...configOptions, ...jsonOption },
  examples: [
    ['config --config toolwright.json', 'what a file makes of the defaults'],
    ['config --json', 'for programs, one setting a line']
  ],
  run: ({ values, env, out }) => {
    const loaded = configFromOptions(values, env)
    if (values.json) for (const row of configRows(loaded)) out.json(row)
    else out.text(showConfig(loaded))
  }
})
