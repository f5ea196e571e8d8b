/** The wasm page, in bytes. */
const pageBytes = 65_536
const memorySection = 5

/**
 * A wasm module whose memory ends at so many bytes. The module itself sets no end, so that it could take 4 GiB, and the limits of a
 * thread do not count that memory. One without a memory of its own is returned as it is.
 * @param {Uint8Array} module @param {number} limit bytes @returns {Uint8Array<ArrayBuffer>}
 */
export function withMemoryLimit(module, limit) {
  // The magic number and the version come first; then sections, each behind its kind and its length.
  for (let at = 8; at < module.length;) {
    const [length, start] = readNumber(module, at + 1)
    if (module[at] === memorySection) {
      // One memory: a flag that tells whether there is a maximum, and the minimum.
      const [minimum] = readNumber(module, start + 2)
      const body = [1, 1, ...numberBytes(minimum), ...numberBytes(Math.floor(limit / pageBytes))]
      const section = [memorySection, ...numberBytes(body.length), ...body]
      return Uint8Array.from(
        Buffer.concat([module.subarray(0, at), Uint8Array.from(section), module.subarray(start + length)])
      )
    }
    at = start + length
  }
  return Uint8Array.from(module)
}

/** An unsigned LEB128 number, and where it ends. @param {Uint8Array} bytes @param {number} at @returns {[value: number, end: number]} */
function readNumber(bytes, at) {
  let value = 0
  for (let factor = 1; ; factor *= 128, at += 1) {
    const byte = bytes[at] ?? 0
    value += (byte & 0x7f) * factor
    if (byte < 0x80) return [value, at + 1]
  }
}

/** @param {number} value @returns {number[]} */
function numberBytes(value) {
  return value < 128 ? [value] : [(value % 128) | 0x80, ...numberBytes(Math.floor(value / 128))]
}
