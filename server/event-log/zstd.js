import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
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

/** The codec did not load, as where no descriptor was left: this says nothing of the bytes. */
export class CodecError extends Error {
  /** @override */
  name = 'CodecError'
}

/** @typedef {{ name: 'node:zlib' | 'zstd-codec', compress(bytes: Uint8Array): Uint8Array, decompress(frame: Uint8Array, size: number): Uint8Array, decompressUnsized(frame: Uint8Array): Uint8Array }} Codec */

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
    decompress: (frame, size) => zstdDecompressSync(frame, { maxOutputLength: Math.max(size, 1) }),
    decompressUnsized: (frame) => zstdDecompressSync(frame, { maxOutputLength: frameBytes })
  }
}

/**
 * Of Node itself where it has one. Made with the first content that needs it: the other one takes 80 ms of each thread that loads it, and
 * many servers, and all commands but two, never see a text long enough.
 * @returns {Codec}
 */
function theCodec() {
  if (made !== undefined) return made
  try {
    return (made = native ?? wasmCodec())
  } catch (error) {
    throw new CodecError('zstd-codec does not load', { cause: error })
  }
}

const native = nativeCodec()
/** @type {Codec | undefined} */
let made
/** Which implementation is in use. */
export const codecName = native === undefined ? 'zstd-codec' : native.name

const beforeBinary = 'wasmBinaryFile="data:application/octet-stream;base64,'

/** @returns {Codec} */
function wasmCodec() {
  const require = createRequire(import.meta.url)
  // The package loads its binary in later turns, and a transaction cannot wait: so its loader is told to do it at once.
  const loader = /** @type {typeof import('zstd-codec/lib/module.js')} */ (require('zstd-codec/lib/module.js'))
  loader.run = (ready) => {
    const bindingFile = 'zstd-codec/lib/zstd-codec-binding-wasm.js'
    /** @type {import('zstd-codec/lib/module.js').Binding} */
    const binding = {
      instantiateWasm(imports, receive) {
        const script = readFileSync(require.resolve(bindingFile), 'latin1')
        const from = script.indexOf(beforeBinary) + beforeBinary.length
        const binary = Buffer.from(script.slice(from, script.indexOf('"', from)), 'base64')
        const instance = new WebAssembly.Instance(new WebAssembly.Module(binary), imports)
        receive(instance)
        return instance.exports
      },
      onRuntimeInitialized: () => ready(binding)
    }
    require(bindingFile)(binding)
  }
  const { ZstdCodec } = /** @type {typeof import('zstd-codec').default} */ (require('zstd-codec'))
  /** @type {Codec | undefined} */
  let codec
  ZstdCodec.run(({ Simple, Streaming }) => {
    codec = codecOf(new Simple(), new Streaming())
  })
  if (codec === undefined) throw new Error('its module was not ready at once')
  return codec
}

/**
 * @param {import('zstd-codec').SimpleCodec} simple
 * @param {import('zstd-codec').StreamingCodec} streaming
 * @returns {Codec}
 */
function codecOf(simple, streaming) {
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
    },
    decompressUnsized: (frame) => streaming.decompress(frame) ?? new Uint8Array()
  }
}

/**
 * One or more whole zstd frames, each with its content size in the header; any zstd reads their concatenation.
 * @param {Uint8Array} bytes not empty
 * @returns {Uint8Array}
 */
export function compress(bytes) {
  const frames = []
  for (let at = 0; at < bytes.length; at += frameBytes)
    frames.push(theCodec().compress(bytes.subarray(at, at + frameBytes)))
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
 * Reads frames one after the other whose total is not known beforehand, as in a file. Where the last one breaks off, what its whole
 * blocks hold comes too, marked `isTorn`. Throws `ZstdError` where a frame is damaged and not merely cut short.
 * @param {Uint8Array} bytes
 * @returns {Generator<{ plain: Uint8Array, isTorn: boolean }>}
 */
export function* readFrames(bytes) {
  for (let at = 0; at < bytes.length;) {
    const frame = walkFrame(bytes, at)
    if (frame.isTorn) {
      yield { plain: salvage(bytes, frame), isTorn: true }
      return
    }
    if (frame.contentBytes > frameBytes) throw new ZstdError('frame claims more than one may hold')
    yield { plain: decode(bytes.subarray(at, frame.end), frame.contentBytes), isTorn: false }
    at = frame.end
  }
}

/**
 * The content of a torn frame's whole blocks, by a frame of their own that ends with the last of them.
 * @param {Uint8Array} bytes
 * @param {ReturnType<typeof walkFrame>} frame
 */
function salvage(bytes, { blocksAt, lastBlock, end }) {
  if (lastBlock < 0) return new Uint8Array()
  // No content size, a window of 1 MiB.
  const header = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x50])
  const blocks = Buffer.from(bytes.subarray(blocksAt, end))
  blocks.writeUInt8(blocks.readUInt8(lastBlock - blocksAt) | 1, lastBlock - blocksAt)
  const codec = theCodec()
  try {
    return codec.decompressUnsized(Buffer.concat([header, blocks]))
  } catch {
    return new Uint8Array()
  }
}

/**
 * @param {Uint8Array} frame
 * @param {number} contentBytes
 */
function decode(frame, contentBytes) {
  const codec = theCodec()
  try {
    const part = codec.decompress(frame, contentBytes)
    if (part.length !== contentBytes) throw new ZstdError('frame holds another size than it claims')
    return part
  } catch (error) {
    // zstd-codec throws strings
    throw error instanceof ZstdError ? error : new ZstdError('frame does not decode', { cause: error })
  }
}

/** @param {Uint8Array} bytes @param {number} start */
function frameAt(bytes, start) {
  const frame = walkFrame(bytes, start)
  if (frame.isTorn) throw new ZstdError('torn frame')
  return { start, end: frame.end, contentBytes: frame.contentBytes }
}

/**
 * Where the frame at `start` ends and what content size its header claims (RFC 8878 §3.1.1). Neither codec says where a frame
 * ends, so its blocks are walked by their headers. Of a torn one `end` is where its last whole block does, if it has one.
 * @param {Uint8Array} bytes
 * @param {number} start
 */
function walkFrame(bytes, start) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const frame = { contentBytes: 0, blocksAt: 0, lastBlock: -1, end: start, isTorn: false }
  try {
    if (view.getUint32(start, true) !== magic) throw new ZstdError('not a zstd frame')
    const descriptor = view.getUint8(start + 4)
    const singleSegment = (descriptor & 0x20) !== 0
    const dictionaryBytes = [0, 1, 2, 4][descriptor & 3] ?? 0
    const sizeBytes = [singleSegment ? 1 : 0, 2, 4, 8][descriptor >> 6] ?? 0
    if (sizeBytes === 0 || dictionaryBytes !== 0) throw new ZstdError('frame without a content size')
    let at = start + 5 + (singleSegment ? 0 : 1)
    frame.contentBytes = readSize(view, at, sizeBytes)
    at += sizeBytes
    frame.blocksAt = at
    for (let last = false; !last;) {
      const block = at
      const header = view.getUint16(at, true) | (view.getUint8(at + 2) << 16)
      last = (header & 1) === 1
      const kind = (header >> 1) & 3
      if (kind === 3) throw new ZstdError('reserved block type')
      at += 3 + (kind === 1 ? 1 : header >> 3)
      if (at > bytes.length) return { ...frame, isTorn: true }
      frame.lastBlock = block
      frame.end = at
    }
    if ((descriptor & 4) !== 0) at += 4
    return { ...frame, end: at, isTorn: at > bytes.length }
  } catch (error) {
    if (error instanceof RangeError) return { ...frame, isTorn: true }
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
