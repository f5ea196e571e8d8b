import {
  baseName,
  builtinPrefixes,
  opaqueBuiltins,
  opaquePrograms,
  prefixPrograms,
  readableShells,
  subscriptBuiltins
} from './permissions-programs.ts'
import { readShellText, type SimpleCommand, Unreadable, type Word } from './permissions-shell-text.ts'

const deepestText = 8
/** Characters read and words of commands found: `sudo` and `eval` around each other could make much of a short text. */
const mostWork = 200_000

/**
 * Every command that bash may run of a text, also those that come about by `sudo`, `xargs`, `sh -c`, `eval` and the like; rather too
 * many than too few. Undefined when that cannot be told for sure.
 */
export function commandsIn(text: string): SimpleCommand[] | undefined {
  try {
    return [...new CommandSearch().textCommands(text, 0)]
  } catch (error) {
    if (error instanceof Unreadable) return undefined
    throw error
  }
}

class CommandSearch {
  #work = 0

  #charge(work: number): void {
    this.#work += work
    if (this.#work > mostWork) throw new Unreadable()
  }

  *textCommands(text: string, depth: number): Generator<SimpleCommand> {
    this.#charge(text.length)
    if (depth > deepestText) throw new Unreadable()
    for (const command of readShellText(text)) yield* this.#runBy(withInput(command), depth, true)
  }

  /** A command and those that it is told by its words to run. */
  *#runBy(command: SimpleCommand, depth: number, isBuiltin: boolean): Generator<SimpleCommand> {
    yield* this.#commands(command, depth, isBuiltin)
    const name = programOf(command)
    if (name === 'find') yield* this.#byFind(command, depth)
    else if (name !== undefined && prefixPrograms.has(name)) {
      // Which words are options and which their values is each program’s own affair: a command may begin at any word.
      for (let at = 1; at < possibleStarts(command); at += 1) {
        const inner = command.slice(at)
        yield* this.#commands(inner, depth, builtinPrefixes.has(name))
        if (programOf(inner) === 'find') yield* this.#byFind(inner, depth)
      }
    }
  }

  *#byFind(command: SimpleCommand, depth: number): Generator<SimpleCommand> {
    for (let at = 1; at < command.length; at += 1) {
      // A word that is not known may bring an `-exec` with it.
      if (command[at] !== undefined && !isExec(command[at - 1])) continue
      yield* this.#runBy(withFile(command.slice(at)), depth, false)
    }
  }

  /** The command, and what it runs of a text among its words. */
  *#commands(command: SimpleCommand, depth: number, isBuiltin: boolean): Generator<SimpleCommand> {
    this.#charge(command.length)
    const name = programOf(command)
    const args = command.slice(1)
    yield command
    if (name === undefined) return
    if (opaquePrograms.has(name) || (isBuiltin && opaqueBuiltins.has(name)) || doesMore(name, args, isBuiltin)) {
      throw new Unreadable()
    }
    if (name === 'eval' && isBuiltin) yield* this.textCommands(joined(args), depth + 1)
    if (readableShells.has(name)) yield* this.textCommands(scriptOf(name, args), depth + 1)
  }
}

const isExec = (word: Word): boolean => /^-(exec|ok)(dir)?$/.test(word ?? '')

/** With the file that `find` puts into any word, the text of a shell among them, in place of what only shows when it runs. */
const withFile = (command: SimpleCommand): SimpleCommand =>
  command.map((word) => (word?.includes('{}') ? undefined : word))

/** With the words that `xargs` adds when it runs. */
const withInput = (command: SimpleCommand): SimpleCommand =>
  command.some((word) => baseName(word ?? '') === 'xargs') ? [...command, undefined] : command

/** How many words may be a command’s first. What `xargs` adds is so only when something runs its words in turn: `xargs env`. */
function possibleStarts(command: SimpleCommand): number {
  const names = command.map((word) => baseName(word ?? ''))
  const ofXargs = names.slice(names.indexOf('xargs') + 1)
  const addsWordsOnly = names.includes('xargs') && !ofXargs.some((name) => prefixPrograms.has(name) || name === 'find')
  return addsWordsOnly && ofXargs.some((name) => name !== '') ? command.length - 1 : command.length
}

const programOf = ([name]: SimpleCommand): string | undefined => (name === undefined ? undefined : baseName(name))

/** Whether a program may do with these words more than run with them. */
function doesMore(name: string, args: SimpleCommand, isBuiltin: boolean): boolean {
  if (name === 'env') return args.some((word) => word === undefined || /^(-[A-Za-z0-9]*S|--s)/.test(word))
  if (name === 'xargs')
    return args.slice(0, -1).some((word) => word === undefined || /^(-[0orptx]*[Ii]|--r)/.test(word))
  if (!isBuiltin) return false
  if (name === 'set') return !args.every((word) => /^([-+][efuxo]+|errexit|nounset|pipefail|xtrace)$/.test(word ?? ''))
  if (name === 'printf') return args[0] === undefined || args[0].startsWith('-')
  return subscriptBuiltins.has(name) && args.some((word) => word === undefined || word.includes('['))
}

/** What `eval` makes of its words. */
function joined(args: SimpleCommand): string {
  const words = args[0] === '--' ? args.slice(1) : args
  if (words.includes(undefined) || words[0]?.startsWith('-')) throw new Unreadable()
  return words.join(' ')
}

/** The text that a shell is given with `-c`, right after it. What it would read from a file or its input nobody knows. */
function scriptOf(name: string, [option, text]: SimpleCommand): string {
  if (option === undefined || !/^-[elux]*c$/.test(option)) throw new Unreadable()
  if (text === undefined || /^[-+]/.test(text)) throw new Unreadable()
  // These other shells read differently.
  if (name !== 'bash' && /\$['"]|&>|<<</.test(text)) throw new Unreadable()
  return text
}
