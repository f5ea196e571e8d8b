/** @import { FromHost, StreamName } from './messages.ts' */

/** Bytes on their way to the server that its reader has not taken yet; beyond this the stream waits. */
const WINDOW_BYTES = 256 * 1024

/** Hands a raw stream over to the server, never faster than it is read there. */
export class OutputPipe {
  #underway = 0

  /**
   * @param {number} id
   * @param {StreamName} name
   * @param {import('node:stream').Readable} stream
   * @param {(message: FromHost) => void} post
   */
  constructor(id, name, stream, post) {
    this.stream = stream
    stream.on('data', (data) => {
      this.#underway += data.length
      if (this.#underway >= WINDOW_BYTES) stream.pause()
      post({ type: 'chunk', id, stream: name, data })
    })
    stream.once('close', () => post({ type: 'end', id, stream: name }))
  }

  /** @param {number} bytes */
  taken(bytes) {
    this.#underway -= bytes
    if (this.#underway < WINDOW_BYTES && this.stream.isPaused()) this.stream.resume()
  }
}
