/**
 * What a world and its host say to each other (code-mode.md §8): one text per frame, a JSON array in its first line and, for a value,
 * JSON text after it, so that a large value is not escaped into a string. On a pipe each frame follows its length in four bytes.
 */

/** @import { BindingShape } from './bindings.ts' */
/** @import { WorldFrame } from './keeper/messages.ts' */

/** Larger frames end the world: one that is never completed must not cost the server more than this. */
export const maxFrameBytes = 128 * 1024 * 1024

/** @param {readonly BindingShape[]} bindings @param {string} program */
export const startFrame = (bindings, program) => `${JSON.stringify(['start', bindings])}\n${program}`

/** @param {number} id @param {string} valueText */
export const valueReply = (id, valueText) => `["reply",${id},true]\n${valueText}`

/** @param {number} id @param {string} message */
export const failedReply = (id, message) => JSON.stringify(['reply', id, false, message])

/** Of a longer header only a text is read: parsed as a whole, 128 MiB of `[],[],…` would take gigabytes. */
const maxHeaderUnits = 65_536

/**
 * Headers that are a fixed head, one text and a bracket.
 * @type {[head: string, (text: string) => WorldFrame | undefined][]}
 */
const textFrames = [
  ['["log",', (text) => ({ type: 'log', text })],
  // No text at all is not said: it would cost nothing of the output limit.
  ['["raw","stdout",', (text) => (text === '' ? undefined : { type: 'raw', stream: 'stdout', text })],
  ['["raw","stderr",', (text) => (text === '' ? undefined : { type: 'raw', stream: 'stderr', text })],
  ['["failed","exception",', (message) => ({ type: 'failed', kind: 'exception', message })],
  ['["failed","invalid-output",', (message) => ({ type: 'failed', kind: 'invalid-output', message })],
  ['["failed","output-limit",', (message) => ({ type: 'failed', kind: 'output-limit', message })]
]

/**
 * Reads a frame of a world, which is hostile: rebuilt member by member, undefined for anything that no honest world says.
 * @param {unknown} text @returns {WorldFrame | undefined}
 */
export function parseWorldFrame(text) {
  if (typeof text !== 'string') return undefined
  for (const [head, frameOf] of textFrames) {
    if (!text.startsWith(head)) continue
    const said = text.endsWith(']') ? parsed(text.slice(head.length, -1), '"') : undefined
    return typeof said === 'string' ? frameOf(said) : undefined
  }
  const end = text.indexOf('\n')
  const body = end === -1 ? undefined : text.slice(end + 1)
  const length = end === -1 ? text.length : end
  const header = length > maxHeaderUnits ? undefined : parsed(text.slice(0, length), '[')
  if (!Array.isArray(header)) return undefined
  const [type, first, second, third] = /** @type {unknown[]} */ (header)
  switch (type) {
    case 'call':
      if (!isWhole(first) || typeof second !== 'string' || typeof third !== 'string' || body === undefined)
        return undefined
      return { type, id: first, global: second, name: third, argument: body }
    case 'done':
      return { type, value: body }
    case 'exit':
      return isWhole(first) ? { type, code: first } : undefined
    case 'memory':
    case 'ready':
    case 'started':
      return { type }
    default:
      return undefined
  }
}

/** A JSON text that begins as it must; undefined for any other. @param {string} text @param {string} start @returns {unknown} */
function parsed(text, start) {
  if (!text.startsWith(start)) return undefined
  try {
    return JSON.parse(text)
  } catch {
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

/**
 * Cuts the bytes of a pipe into frames. A length beyond the limit throws: nothing after it can be trusted.
 * @template [Frame=string]
 */
export class FrameReader {
  #limit
  #decode
  /** The beginning of a frame. It grows by doubling: each chunk on its own would cost more than a byte that it holds. */
  #bytes = Buffer.alloc(0)
  #held = 0

  /** @param {number} limit bytes @param {(body: Buffer) => Frame} decode may not keep the bytes */
  constructor(limit, decode) {
    this.#limit = limit
    this.#decode = decode
  }

  /** @param {Buffer} chunk @returns {Frame[]} the frames that are now complete */
  push(chunk) {
    /** @type {Frame[]} */
    const frames = []
    let bytes = this.#held === 0 ? chunk : this.#append(chunk)
    while (bytes.length >= 4) {
      const end = 4 + bytes.readUInt32BE()
      if (end > this.#limit) throw new RangeError('a frame of the world is too large')
      if (bytes.length < end) break
      frames.push(this.#decode(bytes.subarray(4, end)))
      bytes = bytes.subarray(end)
    }
    this.#keep(bytes)
    return frames
  }

  /** @param {Buffer} chunk @returns {Buffer} all that is held */
  #append(chunk) {
    const length = this.#held + chunk.length
    if (length > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(length, Math.min(2 * length, this.#limit)))
      this.#bytes.copy(larger, 0, 0, this.#held)
      this.#bytes = larger
    }
    chunk.copy(this.#bytes, this.#held)
    return this.#bytes.subarray(0, length)
  }

  /** @param {Buffer} rest */
  #keep(rest) {
    if (rest.length === 0) this.#bytes = Buffer.alloc(0)
    else if (rest.buffer !== this.#bytes.buffer || rest.byteOffset !== this.#bytes.byteOffset)
      this.#bytes = Buffer.from(rest)
    this.#held = rest.length
  }
}
