import type { Config } from '../../server/config/schema.ts'
import { plainWords } from './permissions-plain-command.ts'
import { baseName, neverByWords, wrapperWords } from './permissions-programs.ts'
import { commandsIn } from './permissions-shell-commands.ts'
import type { SimpleCommand } from './permissions-shell-text.ts'
import { wildcard } from './wildcard.ts'

type Words = NonNullable<Config['permissions']['rules'][number]['command']>['words']
type Test = (word: string) => boolean

/** How a rule’s words are to be compared with a command. */
export interface WordsTest {
  readonly places: readonly Test[]
  /** What the words after the places must be; without it an allow takes none, a deny or ask any. */
  readonly end: { readonly kind: 'rest' | 'some'; readonly test: Test } | undefined
}

/** A command line, read once for all rules and only when one asks. A text that is missing reads as nothing that is known. */
export class CommandLine {
  readonly #text: string | undefined
  #plain: { words: readonly string[] | undefined } | undefined
  #all: { commands: readonly SimpleCommand[] | undefined } | undefined

  constructor(text: unknown) {
    this.#text = typeof text === 'string' ? text : undefined
  }

  /** The words, if the text is one simple command of plain words. */
  get plain(): readonly string[] | undefined {
    this.#plain ??= { words: this.#text === undefined ? undefined : plainWords(this.#text) }
    return this.#plain.words
  }

  /** All that it may run; undefined when that cannot be told. */
  get commands(): readonly SimpleCommand[] | undefined {
    this.#all ??= { commands: this.#text === undefined ? undefined : commandsIn(this.#text) }
    return this.#all.commands
  }
}

/** Reads a rule’s words. Calls `fail(path, why)`, which throws, for what cannot be meant. */
export function readWords(words: Words, isAllow: boolean, fail: (path: string, why: string) => never): WordsTest {
  const places: Test[] = []
  let end: WordsTest['end']
  const testOf = (patterns: readonly string[]): Test => {
    const tests = patterns.map((pattern) => (isAllow ? allowedWord(pattern) : wildcard(pattern)))
    return (word) => tests.some((test) => test(word))
  }
  for (const [index, word] of words.entries()) {
    if (typeof word === 'string' || Array.isArray(word)) {
      const patterns = typeof word === 'string' ? [word] : (word as readonly string[])
      if (isAllow && index === 0) assertCanBeAllowed(patterns, (why) => fail('words[0]', why))
      places.push(testOf(patterns))
      continue
    }
    const ending = word as { rest: readonly string[] } | { some: readonly string[] }
    if (index === 0) fail('words[0]', 'is the command itself: a pattern or a list of patterns')
    if (index < words.length - 1) fail(`words[${index}]`, 'stands for all the words that are left, so it comes last')
    if ('rest' in ending) end = { kind: 'rest', test: testOf(ending.rest) }
    else if (isAllow) fail(`words[${index}]`, 'says nothing of the other words; an allow takes { "rest": [patterns] }')
    else end = { kind: 'some', test: testOf(ending.some) }
  }
  return { places, end }
}

function assertCanBeAllowed(patterns: readonly string[], fail: (why: string) => never): void {
  for (const pattern of patterns) {
    if (pattern.includes('*')) fail('names the command that an allow is for: it takes no *')
    if (neverByWords.has(baseName(pattern))) fail(`"${pattern}" can run more than its words say, so no allow is for it`)
  }
}

/** In an allow a `*` stands for nothing that changes what a command is: no option, unless the pattern begins with `-`, and no wrapper. */
function allowedWord(pattern: string): Test {
  const test = wildcard(pattern)
  if (!pattern.includes('*')) return test
  const takesOptions = pattern.startsWith('-')
  return (word) => test(word) && (takesOptions || !word.startsWith('-')) && !wrapperWords.has(baseName(word))
}

/** An allow: the text is one simple command of plain words, and each of them is one that the rule takes (reliability.md §1.5). */
export function allows({ places, end }: WordsTest, line: CommandLine): boolean {
  const words = line.plain
  if (words === undefined || words.length < places.length) return false
  if (end === undefined && words.length > places.length) return false
  return words.every((word, index) => (places[index] ?? end?.test)?.(word) === true)
}

/** A deny or ask: some command in the text begins like the rule, or it cannot be told that none does. */
export function concerns(test: WordsTest, line: CommandLine): boolean {
  const { commands } = line
  return commands === undefined || commands.some((command) => mayMatch(test, command))
}

function mayMatch({ places, end }: WordsTest, command: SimpleCommand): boolean {
  for (const [index, test] of places.entries()) {
    if (index >= command.length) return false
    const word = command[index]
    // From here on there may be anything.
    if (word === undefined) return true
    // `/bin/rm` is `rm`.
    if (!test(word) && !(index === 0 && test(baseName(word)))) return false
  }
  if (end === undefined) return true
  const left = command.slice(places.length)
  const holds = (word: string | undefined): boolean => word === undefined || end.test(word)
  return end.kind === 'some' ? left.some(holds) : left.includes(undefined) || left.every(holds)
}
