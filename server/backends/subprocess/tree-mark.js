/**
 * The mark of a process tree: a number of 63 bits in decimal, which fits a resource limit. From the top: 1, then 18 bits of the data
 * directory, 22 of the server's pid (the kernel gives no larger ones), 22 of the tree. Nobody limits anything to 2⁶² by chance.
 */
const FLAG = 1n << 62n
const NUMBER_BITS = 22

/**
 * @param {{ directory: number, server: number, tree: number }} parts a larger number of a tree is cut
 * @returns {string}
 */
export function treeMark({ directory, server, tree }) {
  const high = (BigInt(directory) << BigInt(NUMBER_BITS)) | BigInt(server)
  return String(FLAG | (high << BigInt(NUMBER_BITS)) | lowNumber(BigInt(tree)))
}

/**
 * @param {string} mark
 * @returns {{ directory: number, server: number } | undefined} undefined for what is no mark
 */
export function readMark(mark) {
  if (!/^\d{19}$/.test(mark)) return undefined
  const all = BigInt(mark)
  if (all >> 62n !== 1n) return undefined
  const high = (all ^ FLAG) >> BigInt(NUMBER_BITS)
  return { directory: Number(high >> BigInt(NUMBER_BITS)), server: Number(lowNumber(high)) }
}

/** @param {bigint} value */
const lowNumber = (value) => BigInt.asUintN(NUMBER_BITS, value)
