import zlib from 'node:zlib'

// The one place that compresses (architecture.md §5, Blobs). Plain JS because the writer and reader threads start from source.
// Content is cut into frames of at most 1 MiB: zstd-codec aborts on inputs over 4 MB and on frames that claim more than it can hold.
export const frameBytes = 1024 * 1024
const level = 3
const magic = 0xfd2fb528

/** The bytes are not what `compress` writes: torn, forged, or damaged. */
export class ZstdError extends Error {
  /** @override */
  name = 'ZstdError'
}

/** @typedef {{ name: 'node:zlib' | 'zstd-codec', compress(bytes: Uint8Array): Uint8Array, decompress(frame: Uint8Array, size: number): Uint8Array }} Codec */

/** @returns {Codec | undefined} */
function nativeCodec() {
  // Node has zstd from 22.15 on; the types here are those of Node 20.
  const native =
    /** @type {{ zstdCompressSync?: (bytes: Uint8Array, options: object) => Uint8Array, zstdDecompressSync?: (bytes: Uint8Array, options: object) => Uint8Array }} */ (
      /** @type {unknown} */ (zlib)
    )
  const { zstdCompressSync, zstdDecompressSync } = native
  if (zstdCompressSync === undefined || zstdDecompressSync === undefined) return undefined
  const parameter = /** @type {Record<string, number>} */ (zlib.constants)['ZSTD_c_compressionLevel'] ?? 100
  return {
    name: 'node:zlib',
    compress: (bytes) => zstdCompressSync(bytes, { params: { [parameter]: level }, pledgedSrcSize: bytes.length }),
    decompress: (frame, size) => zstdDecompressSync(frame, { maxOutputLength: Math.max(size, 1) })
  }
}

/** @returns {Promise<Codec>} */
async function wasmCodec() {
  const { default: zstdCodec } = await import('zstd-codec')
  const simple = await new Promise(
    /** @param {(codec: import('zstd-codec').SimpleCodec) => void} resolve */ (resolve) => {
      zstdCodec.ZstdCodec.run((binding) => resolve(new binding.Simple()))
    }
  )
  return {
    name: 'zstd-codec',
    compress(bytes) {
      const frame = simple.compress(bytes, level)
      if (frame === null) throw new ZstdError('zstd-codec could not compress')
      return frame
    },
    decompress(frame) {
      const bytes = simple.decompress(frame)
      if (bytes === null) throw new ZstdError('zstd-codec could not decompress the frame')
      return bytes
    }
  }
}

const codec = nativeCodec() ?? (await wasmCodec())
/** Which implementation is in use. */
export const codecName = codec.name

/**
 * One or more whole zstd frames, each with its content size in the header; any zstd reads their concatenation.
 * @param {Uint8Array} bytes not empty
 * @returns {Uint8Array}
 */
export function compress(bytes) {
  const frames = []
  for (let at = 0; at < bytes.length; at += frameBytes) frames.push(codec.compress(bytes.subarray(at, at + frameBytes)))
  return frames.length === 1 && frames[0] !== undefined ? frames[0] : Buffer.concat(frames)
}

/**
 * Undoes `compress`. Decodes nothing before every frame's claim was checked against `plainBytes`, so a bomb costs nothing; a
 * flipped bit can still pass (measured: a third of cases), so the caller compares a hash.
 * @param {Uint8Array} bytes
 * @param {number} plainBytes the size the content must have
 * @returns {Uint8Array}
 */
export function decompress(bytes, plainBytes) {
  const frames = []
  let claimed = 0
  for (let at = 0; at < bytes.length;) {
    const frame = frameAt(bytes, at)
    claimed += frame.contentBytes
    if (frame.contentBytes > frameBytes || claimed > plainBytes)
      throw new ZstdError('frame claims more than was stored')
    frames.push(frame)
    at = frame.end
  }
  if (claimed !== plainBytes) throw new ZstdError('frames claim less than was stored')
  const parts = frames.map(({ start, end, contentBytes }) => decode(bytes.subarray(start, end), contentBytes))
  return parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts)
}

/**
 * @param {Uint8Array} frame
 * @param {number} contentBytes
 */
function decode(frame, contentBytes) {
  try {
    const part = codec.decompress(frame, contentBytes)
    if (part.length !== contentBytes) throw new ZstdError('frame holds another size than it claims')
    return part
  } catch (error) {
    // zstd-codec throws strings
    throw error instanceof ZstdError ? error : new ZstdError('frame does not decode', { cause: error })
  }
}

/**
 * Where the frame at `start` ends and what content size its header claims (RFC 8878 §3.1.1). Neither codec says where a frame
 * ends, so its blocks are walked by their headers.
 * @param {Uint8Array} bytes
 * @param {number} start
 */
function frameAt(bytes, start) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  try {
    if (view.getUint32(start, true) !== magic) throw new ZstdError('not a zstd frame')
    const descriptor = view.getUint8(start + 4)
    const singleSegment = (descriptor & 0x20) !== 0
    const dictionaryBytes = [0, 1, 2, 4][descriptor & 3] ?? 0
    const sizeBytes = [singleSegment ? 1 : 0, 2, 4, 8][descriptor >> 6] ?? 0
    if (sizeBytes === 0 || dictionaryBytes !== 0) throw new ZstdError('frame without a content size')
    let at = start + 5 + (singleSegment ? 0 : 1)
    const contentBytes = readSize(view, at, sizeBytes)
    at += sizeBytes
    for (let last = false; !last;) {
      const header = view.getUint16(at, true) | (view.getUint8(at + 2) << 16)
      last = (header & 1) === 1
      const kind = (header >> 1) & 3
      if (kind === 3) throw new ZstdError('reserved block type')
      at += 3 + (kind === 1 ? 1 : header >> 3)
    }
    if ((descriptor & 4) !== 0) at += 4
    if (at > bytes.length) throw new ZstdError('torn frame')
    return { start, end: at, contentBytes }
  } catch (error) {
    if (error instanceof RangeError) throw new ZstdError('torn frame')
    throw error
  }
}

/**
 * @param {DataView} view
 * @param {number} at
 * @param {number} sizeBytes
 */
function readSize(view, at, sizeBytes) {
  if (sizeBytes === 1) return view.getUint8(at)
  if (sizeBytes === 2) return view.getUint16(at, true) + 256
  if (sizeBytes === 4) return view.getUint32(at, true)
  return Number(view.getBigUint64(at, true))
}
