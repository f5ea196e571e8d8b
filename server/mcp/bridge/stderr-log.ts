const maxLineLength = 1_000
const linesPerSecond = 20
const tailLength = 500

/**
 * A server's standard error, for the log: always read, but at most some lines a second are told, and each is cut (F57, reliability.md
 * §1.10).
 */
export class StderrLog {
  readonly #tell: (line: string) => void
  readonly #now: () => number
  #rest = ''
  #second = 0
  #told = 0
  #tail = ''

  constructor(tell: (line: string) => void, now: () => number) {
    this.#tell = tell
    this.#now = now
  }

  /** The last of it: often why a server did not start. */
  get tail(): string {
    return this.#tail.trim()
  }

  add(chunk: Buffer): void {
    const text = chunk.toString('utf8')
    this.#tail = `${this.#tail}${text.slice(-tailLength)}`.slice(-tailLength)
    const lines = `${this.#rest}${text}`.split('\n')
    this.#rest = (lines.pop() ?? '').slice(0, maxLineLength)
    for (const line of lines) this.#line(line)
  }

  #line(line: string): void {
    const second = Math.floor(this.#now() / 1_000)
    if (second !== this.#second) {
      this.#second = second
      this.#told = 0
    }
    this.#told += 1
    if (this.#told <= linesPerSecond && line.trim() !== '') this.#tell(line.slice(0, maxLineLength))
  }
}
