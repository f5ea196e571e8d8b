import { longestCommand } from './permissions-plain-command.ts'
import { commandFollows, reservedWords } from './permissions-programs.ts'

/** A word whose text is known, or undefined: any number of words, of any text, none included. */
export type Word = string | undefined
export type SimpleCommand = readonly Word[]

/** Thrown for a text that this reader cannot be sure of. */
export class Unreadable extends Error {}

interface HereDocument {
  readonly delimiter: string
  readonly isQuoted: boolean
  readonly stripsTabs: boolean
}

/** Variables whose value bash runs, as a command or a file; many builtins and programs can set one. */
const runsItsValue = /^(?:BASH_\w*|BASHOPTS|PS4|SHELLOPTS)(?:$|\W)/
const assignment = /^[A-Za-z_]\w*\+?$/
const parameter = /\$\{(?:\w+(?::?[-+?][\w./, :-]*)?|[@*#?$!-])\}/y
const delimiter = /(?:'([^'\n]+)'|"([^"$`\\\n]+)"|(\\?)([\w.-]+))(?=[\s;&|<>()]|$)/y
/** Characters that mean themselves wherever they stand in a word. */
const plain = /[\w.,:%+@/-]+/y
const endOfWord = new Set(['', ' ', '\t', '\n', ';', '&', '|', '(', ')', '<', '>'])

/**
 * Every simple command that bash may run of a text, through lists, pipes, groups and substitutions; rather one too many than one too
 * few. Throws `Unreadable` for what it does not know for sure: functions, `case`, `[[`, arithmetic, and more.
 */
export function readShellText(text: string): SimpleCommand[] {
  if (text.length > longestCommand || text.includes('\0')) throw new Unreadable()
  return new ShellReader(text).readAll()
}

class ShellReader {
  readonly #text: string
  readonly #commands: SimpleCommand[] = []
  readonly #hereDocuments: HereDocument[] = []
  #at = 0
  #depth = 0

  constructor(text: string) {
    this.#text = text
  }

  readAll(): SimpleCommand[] {
    this.#list('')
    return this.#commands
  }

  /** The next character as bash sees it, without joined lines; empty at the end. */
  #peek(): string {
    while (this.#text[this.#at] === '\\' && this.#text[this.#at + 1] === '\n') this.#at += 2
    return this.#text[this.#at] ?? ''
  }

  #take(): string {
    const char = this.#peek()
    this.#at += 1
    return char
  }

  #takeIf(char: string): boolean {
    if (this.#peek() !== char) return false
    this.#at += 1
    return true
  }

  #skipBlanks(): void {
    while (this.#peek() === ' ' || this.#peek() === '\t') this.#at += 1
  }

  /** Reads commands up to the end of the text, or over the parenthesis that ends them. */
  #list(end: '' | ')'): void {
    if (this.#hereDocuments.length > 0 || ++this.#depth > 100) throw new Unreadable()
    let words: Word[] = []
    // No word of the command has been read: here a reserved word or a parenthesis has its meaning, as `then` in `if (a) then b`.
    let isFresh = true
    const flush = (): void => {
      if (words.length > 0) this.#commands.push(words)
      words = []
      isFresh = true
    }
    for (;;) {
      const char = this.#peek()
      if (char === end) {
        flush()
        this.#at += end.length
        if (this.#hereDocuments.length > 0) throw new Unreadable()
        this.#depth -= 1
        return
      }
      if (char === ' ' || char === '\t') this.#at += 1
      else if (char === '#') this.#comment()
      else if (char === '\n') {
        this.#at += 1
        flush()
        this.#readHereDocuments()
      } else if (char === ';' || char === '|') {
        this.#at += 1
        flush()
      } else if (char === '&') {
        this.#at += 1
        if (this.#takeIf('>')) this.#redirect('>')
        else flush()
      } else if (char === '(') {
        this.#at += 1
        // A function, an array, or arithmetic.
        if (!isFresh || this.#peek() === '(') throw new Unreadable()
        this.#list(')')
      } else if (char === '<' || char === '>') {
        this.#at += 1
        if (this.#takeIf('(')) {
          isFresh = false
          words.push(this.#processSubstitution())
        } else this.#redirect(char)
      } else if (char === ')' || char === '') throw new Unreadable()
      else {
        const start = this.#at
        const { word, isBare, isAssignment } = this.#word()
        if (isFresh && isBare && word !== undefined && reservedWords.has(word) && word !== 'time') {
          if (word === 'for') this.#forHead()
          else if (!commandFollows.has(word)) throw new Unreadable()
        } else if (!this.#isDescriptor(start)) {
          isFresh = false
          if (isAssignment && words.length === 0) continue
          // A process substitution that joins on is part of the word.
          words.push(/^[<>][\\(]/.test(this.#text.slice(this.#at, this.#at + 2)) ? undefined : word)
        }
      }
    }
  }

  /** Whether what was read from here on is the number in a redirection such as `2>f`. */
  #isDescriptor(start: number): boolean {
    const next = this.#peek()
    return (next === '<' || next === '>') && /^\d{1,9}$/.test(this.#text.slice(start, this.#at))
  }

  #comment(): void {
    const end = this.#text.indexOf('\n', this.#at)
    this.#at = end === -1 ? this.#text.length : end
  }

  /** `for name in words`, up to the separator. */
  #forHead(): void {
    this.#skipBlanks()
    const name = this.#word()
    this.#skipBlanks()
    const keyword = this.#word()
    if (!name.isBare || !/^[A-Za-z_]\w*$/.test(name.word ?? '')) throw new Unreadable()
    if (!keyword.isBare || keyword.word !== 'in') throw new Unreadable()
    for (this.#skipBlanks(); this.#peek() !== ';' && this.#peek() !== '\n'; this.#skipBlanks()) {
      if (endOfWord.has(this.#peek())) throw new Unreadable()
      this.#word()
    }
  }

  /** What joins on is part of the same word, a `#` too. */
  #processSubstitution(): undefined {
    this.#list(')')
    this.#word()
  }

  /** What follows the first character of a redirection: more of the operator, and where it goes. */
  #redirect(first: string): void {
    if (first === '<' && this.#takeIf('<')) {
      if (!this.#takeIf('<')) return this.#hereDocument()
    } else if (!this.#takeIf('&') && !this.#takeIf('>')) this.#takeIf('|')
    this.#skipBlanks()
    if ((this.#peek() === '<' || this.#peek() === '>') && this.#text[this.#at + 1] === '(') {
      this.#at += 2
      this.#processSubstitution()
      return
    }
    if (endOfWord.has(this.#peek())) throw new Unreadable()
    this.#word()
  }

  #hereDocument(): void {
    const stripsTabs = this.#takeIf('-')
    this.#skipBlanks()
    delimiter.lastIndex = this.#at
    const [whole, single, double, backslash, bare] = delimiter.exec(this.#text) ?? []
    if (whole === undefined) throw new Unreadable()
    this.#at += whole.length
    this.#hereDocuments.push({
      delimiter: single ?? double ?? (bare as string),
      isQuoted: bare === undefined || backslash !== '',
      stripsTabs
    })
  }

  #readHereDocuments(): void {
    for (const { delimiter, isQuoted, stripsTabs } of this.#hereDocuments.splice(0)) {
      for (;;) {
        if (this.#at >= this.#text.length) throw new Unreadable()
        const end = this.#text.indexOf('\n', this.#at)
        const raw = this.#text.slice(this.#at, end === -1 ? undefined : end)
        this.#at += raw.length + 1
        const line = stripsTabs ? raw.replace(/^\t+/, '') : raw
        if (line === delimiter) break
        // Inside a substitution bash may end the document at such a line.
        if (line.startsWith(delimiter)) throw new Unreadable()
        if (!isQuoted && (raw.endsWith('\\') || /`|\$[({[]/.test(raw))) throw new Unreadable()
      }
    }
    this.#at = Math.min(this.#at, this.#text.length)
  }

  /** One word. `isBare`: nothing in it was quoted or expanded. */
  #word(): { word: Word; isBare: boolean; isAssignment: boolean } {
    let word = ''
    let isKnown = true
    let isBare = true
    let isAssignment = false
    let hasBrace = false
    let hasEquals = false
    for (let char = this.#peek(); !endOfWord.has(char); char = this.#peek()) {
      this.#at += 1
      if (char === "'") {
        isBare = false
        word += this.#upTo("'")
      } else if (char === '"') {
        isBare = false
        const quoted = this.#doubleQuoted()
        isKnown &&= quoted !== undefined
        word += quoted ?? ''
      } else if (char === '\\') {
        isBare = false
        // The character itself, whatever it is: joined lines are gone by now.
        const escaped = this.#text[this.#at]
        if (escaped === undefined) throw new Unreadable()
        this.#at += 1
        word += escaped
      } else if (char === '`' || char === '$') {
        isBare = false
        if (char === '`') this.#backquoted()
        if (char === '$' && !this.#dollar(false)) word += '$'
        else isKnown = false
      } else {
        if (char === '=' && isBare && isKnown && !hasEquals) {
          hasEquals = true
          isAssignment = assignment.test(word)
        }
        if ('*?['.includes(char)) isKnown &&= char === '[' && word === '' && endOfWord.has(this.#peek())
        if (char === '~') isKnown &&= /[A-Za-z0-9]/.test(this.#text[this.#at - 2] ?? '')
        hasBrace ||= char === '{'
        plain.lastIndex = this.#at
        const more = plain.exec(this.#text)?.[0] ?? ''
        this.#at += more.length
        word += char + more
      }
    }
    if (hasBrace && !(isBare && (word === '{' || word === '{}'))) isKnown = false
    if (runsItsValue.test(word)) throw new Unreadable()
    return { word: isKnown ? word : undefined, isBare, isAssignment }
  }

  #upTo(quote: string): string {
    const end = this.#text.indexOf(quote, this.#at)
    if (end === -1) throw new Unreadable()
    const inner = this.#text.slice(this.#at, end)
    this.#at = end + 1
    return inner
  }

  /** The text up to the closing quote; undefined when it has expansions. */
  #doubleQuoted(): string | undefined {
    let inner = ''
    let isKnown = true
    for (let char = this.#take(); char !== '"'; char = this.#take()) {
      if (char === '') throw new Unreadable()
      if (char === '`') {
        this.#backquoted()
        isKnown = false
      } else if (char === '$') {
        if (this.#dollar(true)) isKnown = false
        else inner += '$'
      } else if (char === '\\') {
        const escaped = this.#text[this.#at]
        if (escaped === undefined) throw new Unreadable()
        this.#at += 1
        inner += '$`"\\'.includes(escaped) ? escaped : `\\${escaped}`
      } else inner += char
    }
    return isKnown ? inner : undefined
  }

  #backquoted(): void {
    const inner = this.#upTo('`')
    if (inner.includes('\\')) throw new Unreadable()
    this.#commands.push(...readShellText(inner))
  }

  /** What a dollar sign introduces; false when it stands for itself. */
  #dollar(isInQuotes: boolean): boolean {
    const char = this.#peek()
    if (char === '(') {
      this.#at += 1
      if (this.#peek() === '(') throw new Unreadable()
      this.#list(')')
    } else if (char === '{') {
      parameter.lastIndex = this.#at - 1
      const found = parameter.exec(this.#text)?.[0]
      if (found === undefined) throw new Unreadable()
      this.#at += found.length - 1
    } else if (char === '[') throw new Unreadable()
    else if (char === "'" && !isInQuotes) {
      this.#at += 1
      while (this.#text[this.#at] !== "'") {
        if (this.#at >= this.#text.length) throw new Unreadable()
        this.#at += this.#text[this.#at] === '\\' ? 2 : 1
      }
      this.#at += 1
    } else if (char === '"' && !isInQuotes) {
      this.#at += 1
      this.#doubleQuoted()
    } else if (/[\w@*#?$!-]/.test(char)) {
      this.#at += 1
      while (/\w/.test(char) && /\w/.test(this.#peek())) this.#at += 1
    } else return false
    return true
  }
}
