import { writeSync } from 'node:fs'

const CHUNK_BYTES = 1024
/** Between two tries while the terminal takes nothing: doubled up to the second. */
const MIN_RETRY_MS = 2
const MAX_RETRY_MS = 50

/**
 * Writes to a terminal at the pace of what reads from it. node-pty's own writer asks again in every turn of the loop: a program that
 * reads nothing would cost a whole processor. `isOpen` is asked right before each write, as a closed descriptor's number may be
 * another terminal's by then.
 */
export class InputWriter {
  /** @type {Buffer[]} */
  #queue = []
  #retryMs = MIN_RETRY_MS
  /** @type {NodeJS.Timeout | undefined} */
  #timer
  /** @type {(() => void)[]} */
  #whenIdle = []

  /** @param {{ fd: number, isOpen: () => boolean }} target */
  constructor(target) {
    this.target = target
  }

  get isIdle() {
    return this.#queue.length === 0
  }

  /** @param {string} text */
  write(text) {
    if (text === '') return
    this.#queue.push(Buffer.from(text, 'utf8'))
    if (this.#timer === undefined) this.#advance()
  }

  /** Drops what is not written yet. */
  clear() {
    this.#queue = []
    clearTimeout(this.#timer)
    this.#timer = undefined
    for (const resolve of this.#whenIdle.splice(0)) resolve()
  }

  /** Resolves when nothing is left to be written. @returns {Promise<void>} */
  whenIdle() {
    return this.isIdle ? Promise.resolve() : new Promise((resolve) => this.#whenIdle.push(resolve))
  }

  #advance() {
    this.#timer = undefined
    for (let bytes = this.#queue[0]; bytes !== undefined; bytes = this.#queue[0]) {
      if (!this.target.isOpen()) break
      const written = this.#writeSome(bytes)
      if (written === undefined) break
      if (written === 0) {
        this.#timer = setTimeout(() => this.#advance(), this.#retryMs)
        this.#retryMs = Math.min(MAX_RETRY_MS, this.#retryMs * 2)
        return
      }
      this.#retryMs = MIN_RETRY_MS
      if (written === bytes.length) this.#queue.shift()
      else this.#queue[0] = bytes.subarray(written)
    }
    this.clear()
  }

  /** How many bytes the terminal took; undefined when it takes no more. @param {Buffer} bytes */
  #writeSome(bytes) {
    try {
      return writeSync(this.target.fd, bytes, 0, Math.min(bytes.length, CHUNK_BYTES))
    } catch (error) {
      return /** @type {NodeJS.ErrnoException} */ (error).code === 'EAGAIN' ? 0 : undefined
    }
  }
}
