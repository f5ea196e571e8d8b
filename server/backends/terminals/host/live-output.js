/** @import { Transcript } from './transcript.js' */

/** Output within this many milliseconds is one message. */
const GATHER_MS = 50

/**
 * Output as it comes, for people to watch: in a flood the newest of it, at most so many bytes a second. It is read from the
 * transcript, so that what is left out shows as a step in the offsets.
 */
export class LiveOutput {
  #offset = 0
  /** @type {NodeJS.Timeout | undefined} */
  #timer

  /**
   * @param {Transcript} transcript
   * @param {number} bytesPerSecond
   * @param {(text: string, offset: number) => void} post
   */
  constructor(transcript, bytesPerSecond, post) {
    this.transcript = transcript
    this.maxBytes = Math.max(4, Math.ceil((bytesPerSecond * GATHER_MS) / 1000))
    this.post = post
  }

  /** There is more. */
  notice() {
    this.#timer ??= setTimeout(() => this.#flush(), GATHER_MS)
  }

  /** Posts what is left. */
  end() {
    if (this.#timer !== undefined) this.#flush()
  }

  #flush() {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const { total } = this.transcript
    const { text, from, next } = this.transcript.head(Math.max(this.#offset, total - this.maxBytes), this.maxBytes)
    this.#offset = next
    this.post(text, from)
  }
}
