const quote = 0x22
const backslash = 0x5c
const newline = 0x0a
const carriageReturn = 0x0d
const openBracket = 0x5b

/** Levels of one message: deeper than any result that can be stored. */
const maxDepth = 256

/**
 * Watches the bytes of a response, whose parser has no limits of its own: how long a message is, and how deep it nests. In an event
 * stream an empty line ends a message; else the whole response is one, and no list of them: only a list would be answered by one.
 */
export class MessageGauge {
  readonly #maxBytes: number
  readonly #isEventStream: boolean
  #size = 0
  #depth = 0
  #isInString = false
  #isEscaped = false
  #isLineEmpty = true
  /** Whether an event had an id: the stream can then be taken up again after its end. */
  hasEventId = false
  /** Messages of an event stream that have ended. */
  messages = 0
  #line = ''

  constructor({ maxBytes, isEventStream }: { maxBytes: number; isEventStream: boolean }) {
    this.#maxBytes = maxBytes
    this.#isEventStream = isEventStream
  }

  /** The next bytes; says why the message that they belong to is not taken. */
  add(chunk: Uint8Array): 'too-large' | 'too-deep' | 'malformed' | undefined {
    for (const byte of chunk) {
      this.#size += 1
      if (this.#isEventStream) this.#look(byte)
      if (this.#isEscaped) this.#isEscaped = false
      else if (byte === quote) this.#isInString = !this.#isInString
      else if (byte === backslash) this.#isEscaped = this.#isInString
      else if (!this.#isInString) {
        if (byte === openBracket && this.#depth === 0 && !this.#isEventStream) return 'malformed'
        if (byte === openBracket || byte === 0x7b) this.#depth += 1
        else if (byte === 0x5d || byte === 0x7d) this.#depth -= 1
      }
      if (this.#depth > maxDepth) return 'too-deep'
      if (this.#size > this.#maxBytes) return 'too-large'
    }
    return undefined
  }

  #look(byte: number): void {
    if (byte === newline || byte === carriageReturn) {
      if (this.#isLineEmpty) this.#nextMessage()
      this.#isLineEmpty = byte === newline ? true : this.#isLineEmpty
      if (byte === newline) this.#line = ''
      return
    }
    this.#isLineEmpty = false
    if (this.#line.length < 3) this.#line += String.fromCharCode(byte)
    if (this.#line === 'id:') this.hasEventId = true
  }

  #nextMessage(): void {
    this.messages += 1
    this.#size = 0
    this.#depth = 0
    this.#isInString = false
    this.#isEscaped = false
  }
}
