import { partialEnd, partialStart } from './utf8-cut.js'

/** Chunks within this many milliseconds become one message. */
const GATHER_MS = 30

/** @typedef {{ carry: Buffer, isResuming: boolean }} StreamState */

/**
 * Output as text for people to watch, at most so many bytes a second: a flood must not reach the server. Text never breaks a
 * character, whatever the chunks are.
 */
export class LiveFeed {
  #pending = ''
  #skipped = 0
  #windowStart = 0
  #windowBytes = 0
  /** @type {NodeJS.Timeout | undefined} */
  #timer
  /** @type {Map<string, StreamState>} */
  #streams = new Map()

  /**
   * @param {number} bytesPerSecond
   * @param {(text: string) => void} post
   */
  constructor(bytesPerSecond, post) {
    this.bytesPerSecond = bytesPerSecond
    this.post = post
  }

  /**
   * @param {string} name
   * @param {Buffer} chunk
   */
  write(name, chunk) {
    const stream = this.#streams.get(name) ?? { carry: Buffer.alloc(0), isResuming: false }
    this.#streams.set(name, stream)
    const now = performance.now()
    if (now - this.#windowStart >= 1000) {
      this.#windowStart = now
      this.#windowBytes = 0
    }
    const room = this.bytesPerSecond - this.#windowBytes
    if (room <= 0) return this.#skip(stream, chunk.length)
    if (stream.isResuming) {
      const cut = partialStart(chunk)
      this.#skipped += cut
      chunk = chunk.subarray(cut)
      stream.isResuming = false
    }
    this.#tellSkipped()
    const joined = stream.carry.length === 0 ? chunk : Buffer.concat([stream.carry, chunk])
    const fitting = joined.subarray(0, room)
    const whole = fitting.subarray(0, fitting.length - partialEnd(fitting))
    this.#pending += whole.toString('utf8')
    this.#windowBytes += fitting.length
    stream.carry = Buffer.alloc(0)
    if (fitting.length < joined.length) this.#skip(stream, joined.length - whole.length)
    else stream.carry = Buffer.from(fitting.subarray(whole.length))
    this.#timer ??= setTimeout(() => this.#flush(), GATHER_MS)
  }

  /** @param {StreamState} stream @param {number} bytes */
  #skip(stream, bytes) {
    this.#skipped += bytes + stream.carry.length
    stream.carry = Buffer.alloc(0)
    stream.isResuming = true
  }

  #tellSkipped() {
    if (this.#skipped === 0) return
    this.#pending += `\n[${this.#skipped} bytes are not shown live]\n`
    this.#skipped = 0
  }

  #flush() {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#pending !== '') this.post(this.#pending)
    this.#pending = ''
  }

  /** Posts what is left. Nothing may be written afterwards. */
  end() {
    for (const stream of this.#streams.values()) this.#pending += stream.carry.toString('utf8')
    this.#streams.clear()
    this.#tellSkipped()
    this.#flush()
  }
}
