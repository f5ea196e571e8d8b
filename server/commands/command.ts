import { type Options, type OptionValues, parseOptions, UsageError } from '../command-line.ts'
import type { Output } from './output.ts'

/** What a command is run with. */
export interface CommandInput<O extends Options = Options> {
  readonly values: OptionValues<O>
  readonly positionals: readonly string[]
  /** All of its arguments as they were given. */
  readonly args: readonly string[]
  readonly env: NodeJS.ProcessEnv
  /** Standard output: what was asked for. */
  readonly out: Output
  /** Standard error: progress and notes. */
  readonly err: Output
}

/** One command: its help, its parsing and its place in the list are made from this alone. */
export interface Command<O extends Options = Options> {
  readonly name: string
  /** What follows the name, as `NAME [JSON]`: words in brackets may be left out. */
  readonly usage: string
  readonly summary: string
  /** Paragraphs of the help, each one string. */
  readonly details?: readonly string[]
  readonly options: O
  /** Command lines without `toolwright `, each with what it is for. */
  readonly examples: readonly (readonly [command: string, purpose: string])[]
  /** Gives the exit code, 0 if none. */
  run(input: CommandInput<O>): Promise<number | void> | number | void
}

/** Checks the type of a command and forgets that of its options, so that all fit into one list. */
export const defineCommand = <const O extends Options>(command: Command<O>): Command => command

/** The arguments of a command taken apart and counted against its usage. Throws `UsageError`. */
export function parseCommand(command: Command, args: readonly string[]) {
  try {
    const { values, positionals } = parseOptions(args, command.options, true)
    const [least, most] = positionalsOf(command)
    if (positionals.length < least) throw new UsageError('too few arguments')
    if (positionals.length > most) throw new UsageError(`unexpected argument: ${JSON.stringify(positionals[most])}`)
    return { values, positionals }
  } catch (error) {
    const { message } = error as UsageError
    throw new UsageError(`${message}\n${usageLine(command)}\nSee: toolwright help ${command.name}`)
  }
}

/** Least and most number of positionals. */
function positionalsOf({ usage }: Command): [number, number] {
  const words = usage.split(' ').filter((word) => word !== '')
  const least = words.filter((word) => !word.startsWith('[')).length
  return [least, words.length]
}

export const usageLine = ({ name, usage }: Command): string =>
  `Usage: toolwright ${[name, usage, '[options]'].filter((part) => part !== '').join(' ')}`
