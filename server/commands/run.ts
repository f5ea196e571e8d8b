import { UsageError } from '../command-line.ts'
import { parseCommand } from './command.ts'
import { commands } from './commands.ts'
import { commandHelp, generalHelp } from './help.ts'
import { Output, type OutputStream } from './output.ts'
import { version } from './version.ts'

/** Where a command runs. */
export interface Surroundings {
  readonly env: NodeJS.ProcessEnv
  readonly stdout: OutputStream
  readonly stderr: OutputStream
}

/** Runs what the words after `toolwright` say and gives the exit code. Throws `UsageError`, and what the command throws. */
export async function runCommandLine(words: readonly string[], { env, stdout, stderr }: Surroundings): Promise<number> {
  const [name, ...args] = words
  const asksHelp = name === 'help' || name === '--help' || name === '-h'
  const wanted = asksHelp ? args.find((each) => !each.startsWith('-')) : name
  const command = wanted === undefined ? undefined : commands.get(wanted)
  const say = (text: string): number => (stdout.write(text), 0)
  if (name === '--version') return say(`${version()}\n`)
  if (asksHelp && wanted === undefined) return say(generalHelp(commands.values()))
  if (!command) {
    const problem = wanted === undefined ? 'no command' : `no such command: ${JSON.stringify(wanted)}`
    throw new UsageError(`${problem}\n\n${generalHelp(commands.values())}`)
  }
  const beforeDashes = args.slice(0, args.includes('--') ? args.indexOf('--') : args.length)
  if (asksHelp || beforeDashes.includes('--help') || beforeDashes.includes('-h')) return say(commandHelp(command))
  // As other programs do that write to a pipe nobody reads any more, and as no server must.
  if (command.name !== 'serve') stdout.on('error', () => process.exit(141))
  const { values, positionals } = parseCommand(command, args)
  const outputs = { out: new Output(stdout, env), err: new Output(stderr, env) }
  return (await command.run({ values, positionals, args, env, ...outputs })) ?? 0
}
