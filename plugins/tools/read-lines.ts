/** Characters of one line that are shown. */
export const MAX_LINE_CHARS = 2000
/** Bytes of all lines of a window, with the newlines between them. */
export const MAX_WINDOW_BYTES = 51_200

const suffix = `… (line cut at ${MAX_LINE_CHARS} characters)`

export interface NumberedLine {
  number: number
  text: string
}

/**
 * Picks a window of lines out of a text that comes in pieces, and counts all lines (backends.md §6.3). Memory is bounded by the
 * window, whatever the lines are.
 */
export class LineWindow {
  readonly lines: NumberedLine[] = []
  readonly #offset: number
  readonly #limit: number
  #complete = 0
  #current = ''
  #currentLength = 0
  #lastChar = ''
  #bytes = 0
  #isFull = false

  /** Lines `offset` to `offset + limit - 1`, from 1. */
  constructor(offset: number, limit: number) {
    this.#offset = offset
    this.#limit = limit
  }

  /** A final newline does not open another line. */
  get totalLines(): number {
    return this.#complete + (this.#currentLength > 0 ? 1 : 0)
  }

  write(piece: string): void {
    let from = 0
    for (let end = piece.indexOf('\n'); end !== -1; end = piece.indexOf('\n', from)) {
      this.#extend(piece, from, end)
      this.#closeLine()
      from = end + 1
    }
    this.#extend(piece, from, piece.length)
  }

  /** The last line, if no newline ended it. */
  end(): void {
    if (this.#currentLength > 0) this.#closeLine()
  }

  #extend(piece: string, from: number, to: number): void {
    if (from === to) return
    // One more than is shown, for a CR that may follow.
    const room = MAX_LINE_CHARS + 1 - this.#current.length
    if (this.#isWanted() && room > 0) this.#current += piece.slice(from, Math.min(to, from + room))
    this.#currentLength += to - from
    this.#lastChar = piece.charAt(to - 1)
  }

  #isWanted(): boolean {
    const number = this.#complete + 1
    return !this.#isFull && number >= this.#offset && number < this.#offset + this.#limit
  }

  #closeLine(): void {
    if (this.#isWanted()) {
      const length = this.#currentLength - (this.#lastChar === '\r' ? 1 : 0)
      const text = length > MAX_LINE_CHARS ? cutLine(this.#current) : this.#current.slice(0, length)
      const bytes = Buffer.byteLength(text) + (this.lines.length > 0 ? 1 : 0)
      this.#isFull = this.#bytes + bytes > MAX_WINDOW_BYTES
      if (!this.#isFull) {
        this.#bytes += bytes
        this.lines.push({ number: this.#complete + 1, text })
      }
    }
    this.#complete++
    this.#current = ''
    this.#currentLength = 0
    this.#lastChar = ''
  }
}

function cutLine(line: string): string {
  const last = line.charCodeAt(MAX_LINE_CHARS - 1)
  // Not between the halves of a surrogate pair.
  const end = last >= 0xd800 && last < 0xdc00 ? MAX_LINE_CHARS - 1 : MAX_LINE_CHARS
  return line.slice(0, end) + suffix
}
