import { configOptions } from '../command-line.ts'
import { defineCommand } from './command.ts'

export const serve = defineCommand({
  name: 'serve',
  usage: '',
  summary: 'run the server',
  details: [
    'The first SIGTERM or SIGINT lets running calls end and exits with 0, a second one exits at once. The first start makes an admin token in the home directory, from where the other commands take it.'
  ],
  options: configOptions,
  examples: [
    ['serve', 'on 127.0.0.1:7410, with all state in ~/.toolwright'],
    ['serve --config toolwright.json --port 8080', 'as configured, on another port']
  ],
  // Loaded only then: the other commands need no server.
  run: async ({ args, env }) => (await import('../main.ts')).serve(args, env)
})
