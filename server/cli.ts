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
