import type { WriteStream } from 'node:tty'
import { styleText } from 'node:util'

/** A piece of a line; a style shows on a terminal that takes colours, and nowhere else. */
export type Cell = string | { readonly text: string; readonly style: Style }

type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan'

/**
 * What a terminal would act on, or show as something else than it is: control characters, those that turn the direction of writing
 * around, and those that do not show at all. Whatever comes from the server may hold them, as tools print what strangers wrote.
 */
const acting =
  // eslint-disable-next-line no-control-regex
  /[\0-\x1f\x7f-\x9f\u2028\u2029\ufff9-\ufffb]|(?![\ufe0e\ufe0f])\p{Default_Ignorable_Code_Point}/gu

const asEscape = (char: string): string => {
  const code = char.charCodeAt(0)
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : asUnicodeEscape(char)
}

/** As JSON has it: a character beyond the first plane is two units. */
const asUnicodeEscape = (char: string): string =>
  char
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('')

/** A text as one line that does nothing but show: what would act is written as an escape. */
export const inOneLine = (text: string): string => text.replace(acting, asEscape)

/** As `inOneLine`, with its line breaks and tabs. */
const inLines = (text: string): string =>
  text.replaceAll('\r\n', '\n').replace(acting, (char) => (char === '\n' || char === '\t' ? char : asEscape(char)))

export type OutputStream = NodeJS.WritableStream & Partial<Pick<WriteStream, 'isTTY' | 'columns'>>

/** Standard output or standard error as commands write to it. */
export class Output {
  readonly #stream: OutputStream
  readonly #hasColours: boolean

  constructor(stream: OutputStream, env: NodeJS.ProcessEnv) {
    this.#stream = stream
    this.#hasColours = this.isTerminal && !env.NO_COLOR && env.TERM !== 'dumb'
  }

  get isTerminal(): boolean {
    return this.#stream.isTTY === true
  }

  /** What a tool said: exactly so into a pipe or a file, made harmless on a terminal. */
  text(text: string, style?: Style): void {
    const shown = this.isTerminal ? inLines(text) : text
    this.#stream.write(style === undefined ? shown : this.#inStyle(shown, style))
  }

  /** One line of cells, harmless wherever it goes. */
  line(...cells: Cell[]): void {
    this.#stream.write(`${cells.map((cell) => this.#paint(cell)).join('')}\n`)
  }

  /** JSON as one line, or laid out for people. On a terminal the same JSON, spelt harmlessly. */
  json(value: unknown, indent?: number): void {
    this.jsonText(JSON.stringify(value, null, indent))
  }

  /** JSON text as the server wrote it, numbers and all. */
  jsonText(text: string): void {
    // What acts and is no line break of the layout can only stand in a string.
    const shown = this.isTerminal
      ? text.replace(acting, (char) => (char === '\n' ? char : asUnicodeEscape(char)))
      : text
    this.#stream.write(`${shown}\n`)
  }

  bytes(chunk: Uint8Array): boolean {
    return this.#stream.write(chunk)
  }

  /** Rows under a head, in columns; on a terminal the last column is cut to the width. Without rows nothing, not even the head. */
  table(head: readonly string[], rows: readonly (readonly Cell[])[]): void {
    if (rows.length === 0) return
    const all = [head.map((text): Cell => ({ text, style: 'bold' })), ...rows]
    const widths = head.map((_, column) => Math.max(...all.map((row) => widthOf(textOf(row[column] ?? '')))))
    const room = this.isTerminal ? (this.#stream.columns ?? 80) : Infinity
    for (const row of all) {
      const cells = row.map((cell, column): Cell => {
        const text = textOf(cell)
        const before = widths.slice(0, column).reduce((sum, width) => sum + width + 2, 0)
        const isLast = column === row.length - 1
        const shown = isLast ? cut(text, Math.max(10, room - before)) : pad(text, (widths[column] ?? 0) + 2)
        return typeof cell === 'string' ? shown : { text: shown, style: cell.style }
      })
      this.line(...cells)
    }
  }

  #paint(cell: Cell): string {
    return typeof cell === 'string' ? textOf(cell) : this.#inStyle(textOf(cell), cell.style)
  }

  #inStyle(text: string, style: Style): string {
    // `styleText` would look at a stream itself; which of them is meant, only we know.
    return this.#hasColours ? styleText(style, text, { validateStream: false }) : text
  }
}

const textOf = (cell: Cell): string => inOneLine(typeof cell === 'string' ? cell : cell.text)

const pad = (text: string, width: number): string => text + ' '.repeat(Math.max(0, width - widthOf(text)))

const graphemes = new Intl.Segmenter(undefined, { granularity: 'grapheme' })
const wide =
  /\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]/u

/** Columns that a text takes on a terminal. */
function widthOf(text: string): number {
  let width = 0
  for (const { segment } of graphemes.segment(text)) width += wide.test(segment) ? 2 : 1
  return width
}

/** A text cut to a width, between two characters as people see them. */
function cut(text: string, width: number): string {
  if (text.length <= width && widthOf(text) <= width) return text
  let shown = ''
  let taken = 0
  for (const { segment } of graphemes.segment(text)) {
    taken += widthOf(segment)
    if (taken > width - 1) return `${shown}…`
    shown += segment
  }
  return shown
}
