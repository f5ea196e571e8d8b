import { SearchError, type SearchMatch } from './search.ts'

/** Stands for a line that is not UTF-8 (backends.md §6.8). */
const NOT_TEXT = '(this line is not valid UTF-8)'

/** Cuts a stream of bytes at a separator and hands over what is between, in bounded memory. */
export class ByteRecords {
  readonly #separator: number
  readonly #maxBytes: number
  readonly #take: (record: Buffer) => void
  #rest: Buffer[] = []
  #total = 0

  /** `maxBytes`: beyond so many in all, `write` throws SEARCH_RAW_OUTPUT_OVERFLOW. */
  constructor(separator: number, maxBytes: number, take: (record: Buffer) => void) {
    this.#separator = separator
    this.#maxBytes = maxBytes
    this.#take = take
  }

  /** The stream has ended within a record. */
  get hasRest(): boolean {
    return this.#rest.length > 0
  }

  write(chunk: Uint8Array): void {
    this.#total += chunk.length
    if (this.#total > this.#maxBytes) {
      const message = `the search found more than ${this.#maxBytes} bytes; search fewer files or for something rarer`
      throw new SearchError('SEARCH_RAW_OUTPUT_OVERFLOW', message)
    }
    let from = 0
    for (let at = chunk.indexOf(this.#separator); at !== -1; at = chunk.indexOf(this.#separator, from)) {
      const last = Buffer.from(chunk.buffer, chunk.byteOffset + from, at - from)
      // A record that came in many chunks is put together once, not with each of them.
      this.#take(this.#rest.length === 0 ? last : Buffer.concat([...this.#rest.splice(0), last]))
      from = at + 1
    }
    if (from < chunk.length) this.#rest.push(Buffer.from(chunk.buffer, chunk.byteOffset + from, chunk.length - from))
  }
}

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** Bytes as text. A file name that is not UTF-8 has no text of its own: its bad bytes are shown as U+FFFD. */
export const decodeText = (bytes: Uint8Array): string => decoder.decode(bytes)

/** The match that a line of `rg --json` tells; undefined for its other messages. Throws SEARCH_FAILED when it is none of them. */
export function readMatch(record: Buffer): SearchMatch | undefined {
  try {
    const { type, data } = JSON.parse(decodeText(record)) as Message
    if (type !== 'match') return undefined
    const { path, lines, line_number: lineNumber } = data
    if (!Number.isSafeInteger(lineNumber)) throw new TypeError('a match has no line number')
    return {
      path: path.text ?? decodeText(Buffer.from(path.bytes, 'base64')),
      lineNumber,
      line: lines.text?.replace(/\r?\n$/, '') ?? NOT_TEXT
    }
  } catch (error) {
    throw new SearchError('SEARCH_FAILED', 'the output of ripgrep makes no sense', { cause: error })
  }
}

/** Text, or base64 of what is not UTF-8. */
type Bytes = { text: string; bytes?: never } | { text?: never; bytes: string }

interface Message {
  type: string
  data: { path: Bytes; lines: Bytes; line_number: number }
}
