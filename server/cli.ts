#!/usr/bin/env node
import { configFromArguments, configOptionsHelp, runCommand, UsageError } from './command-line.ts'
import { showConfig } from './config/show.ts'

interface Command {
  readonly summary: string
  run(args: readonly string[]): Promise<void> | void
}

const commands: ReadonlyMap<string, Command> = new Map([
  // Loaded only then: the other commands need no server.
  ['serve', { summary: 'run the server', run: async (args) => (await import('./main.ts')).serve(args, process.env) }],
  [
    'backup',
    {
      summary: 'FILE: copy the event log into a new file, also while the server runs',
      run: async (args) => (await import('./commands/backup.ts')).backup(args, process.env)
    }
  ],
  [
    'verify',
    {
      summary: '[DIR|FILE]: read an event log, a backup or an exported session from end to end',
      run: async (args) => (await import('./commands/verify.ts')).verify(args, process.env)
    }
  ],
  [
    'migrate',
    {
      summary: 'bring the event log up to date without starting the server',
      run: async (args) => (await import('./commands/migrate.ts')).migrate(args, process.env)
    }
  ],
  [
    'config',
    {
      summary: 'print every setting with its effective value and where that comes from',
      run: (args) => void process.stdout.write(showConfig(configFromArguments(args, process.env)))
    }
  ]
])

const help = `Usage: toolwright COMMAND [options]

${[...commands].map(([name, { summary }]) => `  ${name.padEnd(20)} ${summary}\n`).join('')}
Options:
${configOptionsHelp}`

await runCommand(() => {
  const [name, ...args] = process.argv.slice(2)
  if (name === 'help' || name === '--help' || name === '-h' || args.includes('--help')) {
    process.stdout.write(help)
    return
  }
  const command = name === undefined ? undefined : commands.get(name)
  if (!command) throw new UsageError(`${name === undefined ? 'no command' : `no such command: ${name}`}\n\n${help}`)
  return command.run(args)
})
