import { byteLength, sliceText, stringifyJson } from './intrinsics.js'

/** The way out of a world: it meters the output before it leaves (code-mode.md §10). */
export class Outlet {
  #send
  #bytes = 1
  #limit
  #isClosed = false

  /** @param {(frame: string) => void} send @param {number} limit of the output in bytes */
  constructor(send, limit) {
    this.#send = send
    this.#limit = limit
  }

  /** Bytes of output that are left. */
  get room() {
    return this.#limit - this.#bytes
  }

  /** @param {string} frame */
  post(frame) {
    if (this.#isClosed) return
    this.#send(frame)
  }

  /** @param {string} text */
  log(text) {
    // One more for the comma, which the first entry has not: the count begins one lower for that.
    this.#say('["log",', text, 1)
  }

  /** Output that went past the console. @param {'stdout' | 'stderr'} stream @param {string} text */
  raw(stream, text) {
    if (text === '') return
    // All of a stream is one entry.
    this.#say(`["raw","${stream}",`, text, -2)
  }

  /** @param {string | undefined} valueText */
  done(valueText) {
    if (valueText !== undefined && byteLength(valueText) > this.room) return this.exceed()
    this.#finish(valueText === undefined ? '["done"]' : `["done"]\n${valueText}`)
  }

  /** @param {'exception' | 'invalid-output'} kind @param {string} message */
  fail(kind, message) {
    if (message.length > this.room) return this.exceed()
    this.#finish(`["failed","${kind}",${stringifyJson(message)}]`)
  }

  /** @param {string} head of the frame @param {string} text @param {number} extra bytes beside those of the JSON string */
  #say(head, text, extra) {
    if (this.#isClosed) return
    const { room } = this
    // The host cuts what crosses the limit, and is sent no more of it than it needs for that.
    if (text.length > room) {
      this.post(`${head}${stringifyJson(sliceText(text, 0, room + 1))}]`)
      return this.exceed()
    }
    const encoded = stringifyJson(text)
    this.#bytes += byteLength(encoded) + extra
    this.post(`${head}${encoded}]`)
    if (this.#bytes > this.#limit) this.exceed()
  }

  /** Ends the run as one whose output is too much. */
  exceed() {
    this.#finish('["failed","output-limit",""]')
  }

  /** @param {string} frame */
  #finish(frame) {
    this.post(frame)
    this.#isClosed = true
  }
}
