import { createHash } from 'node:crypto'
import { CodecError, codecName, compress, decompress } from './zstd.js'

// zstd-codec begins to pay at 2 KiB, the native codec at 1 KiB (architecture.md §5, Blobs).
const threshold = codecName === 'node:zlib' ? 1024 : 2048
// A packed cell: plain size (8 bytes), SHA-256 of the plain bytes (32), then the frames.
const hashAt = 8
const framesAt = 40

/** A stored payload is not what was written. */
export class BlobError extends Error {
  /** @override */
  name = 'BlobError'
}

/**
 * A text as the database stores it: itself, or from the threshold up a packed blob when that is smaller.
 * @param {string} text
 * @returns {string | Buffer}
 */
export function pack(text) {
  // A UTF-16 length below a third of the threshold cannot reach it in UTF-8; above, the bytes decide.
  if (text.length * 3 < threshold) return text
  const plain = Buffer.from(text)
  if (plain.length < threshold) return text
  const frames = compress(plain)
  if (framesAt + frames.length >= plain.length) return text
  const cell = Buffer.allocUnsafe(framesAt + frames.length)
  cell.writeBigUInt64LE(BigInt(plain.length), 0)
  createHash('sha256').update(plain).digest().copy(cell, hashAt)
  cell.set(frames, framesAt)
  return cell
}

/**
 * The text of a stored cell. Its size is checked before and its hash after the decoding, so that neither a bomb nor a flipped
 * bit is handed on; throws `BlobError`.
 * @param {string | Uint8Array} cell
 * @returns {string}
 */
export function unpack(cell) {
  if (typeof cell === 'string') return cell
  const bytes = Buffer.from(cell.buffer, cell.byteOffset, cell.byteLength)
  if (bytes.length < framesAt) throw new BlobError('packed payload is torn')
  let plain
  try {
    plain = decompress(bytes.subarray(framesAt), Number(bytes.readBigUInt64LE(0)))
  } catch (error) {
    if (error instanceof CodecError) throw error
    throw new BlobError('packed payload does not decode', { cause: error })
  }
  const hash = createHash('sha256').update(plain).digest()
  if (!hash.equals(bytes.subarray(hashAt, framesAt))) throw new BlobError('packed payload does not match its hash')
  return Buffer.from(plain.buffer, plain.byteOffset, plain.byteLength).toString()
}
