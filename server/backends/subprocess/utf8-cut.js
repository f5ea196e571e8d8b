/** The length of the UTF-8 sequence that this byte opens; 1 for ASCII and for bytes that open none. @param {number} byte */
const sequenceLength = (byte) => (byte >= 0xf0 && byte < 0xf8 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 1)

/** @param {number | undefined} byte */
const isContinuation = (byte) => byte !== undefined && (byte & 0xc0) === 0x80

/**
 * How many bytes at the end are the beginning of a character whose rest is not there yet (0 to 3).
 * @param {Uint8Array} bytes
 * @returns {number}
 */
export function partialEnd(bytes) {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back]
    if (isContinuation(byte)) continue
    return byte !== undefined && byte < 0xf8 && sequenceLength(byte) > back ? back : 0
  }
  return 0
}

/**
 * How many bytes at the start are the rest of a character whose beginning is cut off (0 to 3).
 * @param {Uint8Array} bytes
 * @returns {number}
 */
export function partialStart(bytes) {
  let count = 0
  while (count < Math.min(3, bytes.length) && isContinuation(bytes[count])) count++
  return count
}
