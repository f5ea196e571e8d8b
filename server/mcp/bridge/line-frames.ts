import type { JsonValue } from '../../json/lossless.ts'
import { JsonTextError, parseJson } from '../../json/parse-text.js'

/** What a line was: a message, or one that could not be taken, with the request that it answered where that can be told. */
export type LineFrame =
  | { kind: 'message'; message: JsonValue; line: Buffer }
  | { kind: 'refused'; reason: 'too-large' | 'too-deep'; answered: number | undefined }
  | { kind: 'noise'; text: string }

/** Levels of one message: deeper than any result that can be stored. */
const maxDepth = 256
/** Kept of each end of a message that is too large, to tell which request it answers. */
const keptEnd = 512
const newline = 0x0a

/**
 * Cuts what a stdio server prints into messages, one a line, none above `maxBytes` (F59). A larger one is passed over without being
 * kept. What is no JSON is noise: many servers print a greeting.
 */
export class LineFrames {
  readonly #maxBytes: number
  readonly #accept: (frame: LineFrame) => void
  #pieces: Buffer[] = []
  #size = 0
  /** The beginning of the line that is passed over. */
  #head: Buffer | undefined

  constructor(maxBytes: number, accept: (frame: LineFrame) => void) {
    this.#maxBytes = maxBytes
    this.#accept = accept
  }

  /** Bytes of the line that is not finished yet. */
  get pendingBytes(): number {
    return this.#size
  }

  /** Takes the bytes up to the end of the first line among them, and says what is behind it: nothing, when no line ends. */
  take(bytes: Buffer): Buffer {
    const end = bytes.indexOf(newline)
    if (end === -1) {
      this.#add(bytes)
      return bytes.subarray(bytes.length)
    }
    this.#add(bytes.subarray(0, end))
    this.#finish()
    return bytes.subarray(end + 1)
  }

  #add(piece: Buffer): void {
    if (piece.length === 0) return
    this.#pieces.push(piece)
    this.#size += piece.length
    if (this.#size <= this.#maxBytes) return
    this.#head ??= Buffer.concat(this.#pieces, keptEnd)
    // Only its end is of use any more.
    this.#pieces = [Buffer.from(Buffer.concat(this.#pieces.slice(-2)).subarray(-keptEnd))]
  }

  #finish(): void {
    const line = Buffer.concat(this.#pieces)
    const head = this.#head
    this.#pieces = []
    this.#size = 0
    this.#head = undefined
    if (head !== undefined) {
      return this.#accept({ kind: 'refused', reason: 'too-large', answered: requestOf(head, line) })
    }
    const text = line.toString('utf8').trim()
    if (text === '') return
    try {
      this.#accept({ kind: 'message', message: parseJson(text, { maxDepth }), line })
    } catch (error) {
      if (error instanceof JsonTextError && error.reason === 'depth') {
        const ends = [line.subarray(0, keptEnd), line.subarray(-keptEnd)] as const
        this.#accept({ kind: 'refused', reason: 'too-deep', answered: requestOf(...ends) })
      } else this.#accept({ kind: 'noise', text })
    }
  }
}

/** Servers write the id of an answer before or after its result. */
function requestOf(head: Buffer, tail: Buffer): number | undefined {
  const id =
    /^\s*\{[^{[]*"id"\s*:\s*(\d+)/.exec(head.toString('latin1')) ??
    /"id"\s*:\s*(\d+)[^{[\]}]*\}\s*$/.exec(tail.toString('latin1'))
  return id === null ? undefined : Number(id[1])
}
