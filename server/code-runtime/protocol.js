/**
 * What a world and its host say to each other (code-mode.md §8): one text per frame, a JSON array in its first line and, for a value,
 * JSON text after it, so that a large value is not escaped into a string. On a pipe each frame follows its length in four bytes.
 */

/** @import { BindingShape } from './bindings.ts' */
/** @import { WorldFrame } from './keeper/messages.ts' */

/** Larger frames end the world: one that is never completed must not cost the server more than this. */
export const maxFrameBytes = 128 * 1024 * 1024

const failureKinds = new Set(['exception', 'invalid-output', 'output-limit'])

/** @param {readonly BindingShape[]} bindings @param {string} program */
export const startFrame = (bindings, program) => `${JSON.stringify(['start', bindings])}\n${program}`

/** @param {number} id @param {string} valueText */
export const valueReply = (id, valueText) => `["reply",${id},true]\n${valueText}`

/** @param {number} id @param {string} message */
export const failedReply = (id, message) => JSON.stringify(['reply', id, false, message])

/**
 * Reads a frame of a world, which is hostile: rebuilt member by member, undefined for anything that no honest world says.
 * @param {unknown} text @returns {WorldFrame | undefined}
 */
export function parseWorldFrame(text) {
  if (typeof text !== 'string') return undefined
  const end = text.indexOf('\n')
  const body = end === -1 ? undefined : text.slice(end + 1)
  /** @type {unknown} */
  let header
  try {
    header = JSON.parse(end === -1 ? text : text.slice(0, end))
  } catch {
    return undefined
  }
  if (!Array.isArray(header)) return undefined
  const [type, first, second, third] = /** @type {unknown[]} */ (header)
  switch (type) {
    case 'call':
      if (!isWhole(first) || typeof second !== 'string' || typeof third !== 'string' || body === undefined)
        return undefined
      return { type, id: first, global: second, name: third, argument: body }
    case 'log':
      return typeof first === 'string' ? { type, text: first } : undefined
    case 'raw':
      if ((first !== 'stdout' && first !== 'stderr') || typeof second !== 'string') return undefined
      return { type, stream: first, text: second }
    case 'done':
      return { type, value: body }
    case 'failed':
      if (typeof first !== 'string' || !failureKinds.has(first) || typeof second !== 'string') return undefined
      return { type, kind: /** @type {'exception'} */ (first), message: second }
    case 'exit':
      return isWhole(first) ? { type, code: first } : undefined
    case 'busy':
      return typeof first === 'number' && first >= 0 ? { type, ms: first } : undefined
    case 'memory':
    case 'ready':
    case 'started':
      return { type }
    default:
      return undefined
  }
}

/** @param {unknown} value @returns {value is number} */
const isWhole = (value) => Number.isSafeInteger(value)

/** A frame as it goes on a pipe. @param {string} text @returns {Buffer} */
export function encodeFrame(text) {
  const length = Buffer.byteLength(text)
  const frame = Buffer.allocUnsafe(4 + length)
  frame.writeUInt32BE(length)
  frame.write(text, 4)
  return frame
}

/** Cuts the bytes of a pipe into frames. A length beyond the limit throws: nothing after it can be trusted. */
export class FrameReader {
  #limit
  /** @type {Buffer[]} */
  #chunks = []
  #held = 0
  /** Bytes needed before the next frame can be read. */
  #wanted = 4

  /** @param {number} [limit] bytes */
  constructor(limit = maxFrameBytes) {
    this.#limit = limit
  }

  /** @param {Buffer} chunk @returns {string[]} the frames that are now complete */
  push(chunk) {
    this.#chunks.push(chunk)
    this.#held += chunk.length
    /** @type {string[]} */
    const frames = []
    if (this.#held < this.#wanted) return frames
    let bytes = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks)
    for (;;) {
      if (bytes.length < 4) {
        this.#wanted = 4
        break
      }
      const end = 4 + bytes.readUInt32BE()
      if (end > this.#limit) throw new RangeError('a frame of the world is too large')
      if (bytes.length < end) {
        this.#wanted = end
        break
      }
      frames.push(bytes.toString('utf8', 4, end))
      bytes = bytes.subarray(end)
    }
    this.#chunks = bytes.length > 0 ? [bytes] : []
    this.#held = bytes.length
    return frames
  }
}
