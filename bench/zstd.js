// What compression costs and saves at each size and level, with this Node's codec: `node bench/zstd.js` (docs/storage.md).
import { performance } from 'node:perf_hooks'
import zlib from 'node:zlib'

const native =
  /** @type {{ zstdCompressSync?: (bytes: Uint8Array, options: object) => Uint8Array, zstdDecompressSync?: (bytes: Uint8Array) => Uint8Array }} */ (
    /** @type {unknown} */ (zlib)
  )

/** @returns {Promise<{ name: string, compress(bytes: Uint8Array, level: number): Uint8Array, decompress(bytes: Uint8Array): Uint8Array }>} */
async function codec() {
  const { zstdCompressSync, zstdDecompressSync } = native
  if (zstdCompressSync !== undefined && zstdDecompressSync !== undefined) {
    return {
      name: 'node:zlib',
      compress: (bytes, level) => zstdCompressSync(bytes, { params: { 100: level }, pledgedSrcSize: bytes.length }),
      decompress: zstdDecompressSync
    }
  }
  const { default: zstdCodec } = await import('zstd-codec')
  return await new Promise((resolve) => {
    zstdCodec.ZstdCodec.run(({ Simple }) => {
      const simple = new Simple()
      const some = (/** @type {Uint8Array | null} */ bytes) => bytes ?? new Uint8Array()
      resolve({
        name: 'zstd-codec',
        compress: (bytes, level) => some(simple.compress(bytes, level)),
        decompress: (bytes) => some(simple.decompress(bytes))
      })
    })
  })
}

/** Lines as tools print them: paths, numbers and words, repeated as such things are. @param {number} size */
function output(size) {
  let text = ''
  for (let n = 0; text.length < size; n += 1) {
    const word = ['import', 'const', 'return', 'error', 'export'][(n * 7) % 5]
    text += `{"path":"server/module-${(n * 37) % 101}/file-${n}.ts","line":${(n * 7919) % 997},"text":"${word} value${(n * n) % 8191}"}\n`
  }
  return Buffer.from(text.slice(0, size))
}

/** Median microseconds of a call. @param {() => unknown} work */
function micros(work) {
  const times = []
  for (let n = 0; n < 31; n += 1) {
    const startedAt = performance.now()
    for (let again = 0; again < 5; again += 1) work()
    times.push(((performance.now() - startedAt) * 1000) / 5)
  }
  return times.sort((a, b) => a - b)[15] ?? Number.NaN
}

const { name, compress, decompress } = await codec()
console.log(`${name} on Node ${process.versions.node}: size after, µs to compress / to decompress\n`)
const levels = [1, 3, 6, 9]
// The first calls run cold.
for (let n = 0; n < 20; n += 1) micros(() => decompress(compress(output(4096), 3)))
console.log(`   bytes | ${levels.map((level) => `level ${level}`.padEnd(20)).join(' | ')}`)
for (const size of [512, 1024, 2048, 4096, 16_384, 65_536, 1_048_576]) {
  const plain = output(size)
  const cells = levels.map((level) => {
    const packed = compress(plain, level)
    const [there, back] = [micros(() => compress(plain, level)), micros(() => decompress(packed))]
    return `${((packed.length / size) * 100).toFixed(0)} % ${there.toFixed(0)} / ${back.toFixed(0)}`.padEnd(20)
  })
  console.log(`${String(size).padStart(8)} | ${cells.join(' | ')}`)
}
