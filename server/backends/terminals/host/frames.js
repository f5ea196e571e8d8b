/**
 * Frames between the server and the process that holds the terminals: one JSON text a line.
 * @param {unknown} message
 */
export const frameOf = (message) => `${JSON.stringify(message)}\n`

/** Cuts a byte stream into frames. */
export class FrameReader {
  /** @type {Buffer[]} */
  #parts = []

  /**
   * The messages that are complete with this chunk. Throws for a line that is not JSON.
   * @param {Uint8Array} chunk
   * @returns {unknown[]}
   */
  read(chunk) {
    const messages = []
    let rest = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    for (let at = rest.indexOf(0x0a); at >= 0; at = rest.indexOf(0x0a)) {
      this.#parts.push(rest.subarray(0, at))
      messages.push(JSON.parse(Buffer.concat(this.#parts).toString('utf8')))
      this.#parts = []
      rest = rest.subarray(at + 1)
    }
    if (rest.length > 0) this.#parts.push(rest)
    return messages
  }
}
