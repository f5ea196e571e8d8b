import { execFileSync, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { codecName, compress, decompress, frameBytes, ZstdError } from '../../server/event-log/zstd.js'

const bytesOf = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
const mebibyte = 1024 * 1024

/** Little-endian header of a frame that claims `size` and holds one empty raw block. */
const claiming = (size: bigint) => {
  const frame = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0])
  frame.writeBigUInt64LE(size, 5)
  return frame
}

describe('zstd', () => {
  it('gives back what it was given, at every size that changes the header or the frames', () => {
    for (const size of [1, 2, 255, 256, 257, 65_791, 65_792, mebibyte - 1, mebibyte, mebibyte + 1, 3 * mebibyte + 7]) {
      for (const plain of [Buffer.alloc(size, 'ab'), randomBytes(size)]) {
        expect(bytesOf(decompress(compress(plain), size)).equals(plain), `${size}`).toBe(true)
      }
    }
  })

  it('cuts into frames that the zstd command reads as one, and reads those of the command', () => {
    const plain = Buffer.from('a long and dull payload '.repeat(200_000))
    const zstd =
      (...args: string[]) =>
      (input: Uint8Array) =>
        execFileSync('zstd', ['-q', '-c', ...args], { input, maxBuffer: 64 * mebibyte })
    expect(zstd('-d')(compress(plain)).equals(plain)).toBe(true)
    const part = plain.subarray(0, frameBytes)
    const theirs = zstd('--stream-size', String(part.length))(part)
    expect(bytesOf(decompress(theirs, part.length)).equals(part)).toBe(true)
    expect(
      bytesOf(decompress(Buffer.concat([theirs, theirs]), 2 * part.length))
        .subarray(part.length)
        .equals(part)
    ).toBe(true)
  })

  it('architecture.md §5: frames of one codec are readable by the other', ({ skip }) => {
    const module = fileURLToPath(new URL('../../server/event-log/zstd.js', import.meta.url))
    const plain = Buffer.from('payload of both codecs '.repeat(100_000))
    // Reads ours from standard input, answers with its codec's name and its own frames of the same content.
    const script = `
      const { codecName, compress, decompress } = await import(${JSON.stringify(module)})
      const chunks = []
      for await (const chunk of process.stdin) chunks.push(chunk)
      const plain = decompress(Buffer.concat(chunks), ${plain.length})
      process.stdout.write(JSON.stringify({ codecName, frames: Buffer.from(compress(plain)).toString('base64') }))`
    const args = ['--offline', '--yes', 'node@24', '--input-type=module', '-e', script]
    const other = spawnSync('npx', args, { input: compress(plain), maxBuffer: 64 * mebibyte, timeout: 15_000 })
    if (
      other.status !== 0 &&
      /ENOTCACHED|ECONNREFUSED|ETIMEDOUT|ENOENT/.test(String(other.stderr) + String(other.error))
    ) {
      skip('Node 24 is not in the npm cache of this machine')
    }
    expect(String(other.stderr)).toBe('')
    const answer = JSON.parse(other.stdout.toString()) as { codecName: string; frames: string }
    expect(answer.codecName).toBe('node:zlib')
    expect(bytesOf(decompress(Buffer.from(answer.frames, 'base64'), plain.length)).equals(plain)).toBe(true)
  })

  it('S16: decodes nothing whose claim is not what was stored', () => {
    const bomb = compress(Buffer.alloc(frameBytes))
    expect(() => decompress(bomb, 10)).toThrow(ZstdError)
    expect(() => decompress(Buffer.concat(Array.from({ length: 2000 }, () => bomb)), 3 * frameBytes)).toThrow(ZstdError)
    for (const size of [64n * 1024n * 1024n, 2n ** 63n, 2n ** 64n - 1n]) {
      expect(() => decompress(claiming(size), Number(size))).toThrow(ZstdError)
    }
    expect(() => decompress(claiming(100n), 100)).toThrow(ZstdError)
    const unknownSize = execFileSync('zstd', ['-q', '-c', '--no-content-size'], { input: 'x'.repeat(100) })
    expect(() => decompress(unknownSize, 100)).toThrow(/content size/)
  })

  it('refuses what is torn, at every byte', () => {
    const plain = Buffer.from('torn '.repeat(100))
    const frame = compress(plain)
    for (let length = 0; length < frame.length; length += 1) {
      expect(() => decompress(frame.subarray(0, length), plain.length), `${length}`).toThrow(ZstdError)
    }
    expect(() => decompress(Buffer.concat([frame, Buffer.from('x')]), plain.length)).toThrow(ZstdError)
  })

  it('answers whatever bytes with their content or a ZstdError, and works on', () => {
    const frame = compress(Buffer.from('something to damage '.repeat(50)))
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(frame.length - 1), fc.nat(255)), { minLength: 1, maxLength: 8 }),
        (changes) => {
          const damaged = Buffer.from(frame)
          for (const [at, byte] of changes) damaged[at] = byte
          try {
            expect(decompress(damaged, 1000)).toHaveLength(1000)
          } catch (error) {
            expect(error).toBeInstanceOf(ZstdError)
          }
        }
      )
    )
    expect(bytesOf(decompress(frame, 1000)).toString()).toBe('something to damage '.repeat(50))
  })

  it('that cannot be loaded says nothing of the bytes, and is loaded when it can be', ({ skip }) => {
    if (codecName !== 'zstd-codec') skip('the codec of Node is never loaded')
    const module = fileURLToPath(new URL('../../server/event-log/blobs.js', import.meta.url))
    const program = `
      const { closeSync, openSync } = await import('node:fs')
      const { pack, unpack } = await import(${JSON.stringify(module)})
      const open = []
      try { for (;;) open.push(openSync('/dev/null')) } catch {}
      const cell = Buffer.concat([Buffer.alloc(40), Buffer.from('28b52ffd2001090000', 'hex'), Buffer.from('x')])
      cell.writeBigUInt64LE(1n, 0)
      const said = []
      for (const work of [() => pack('x'.repeat(9_000)), () => unpack(cell)]) {
        try { work() } catch (error) { said.push(error.name) }
      }
      open.forEach((each) => closeSync(each))
      console.log(...said, unpack(pack('x'.repeat(9_000))).length)`
    const shell = `ulimit -n 100; exec '${process.execPath}' --input-type=module -e "$PROGRAM"`
    const said = execFileSync('sh', ['-c', shell], { env: { PROGRAM: program }, encoding: 'utf8' })
    expect(said).toBe('CodecError CodecError 9000\n')
  })

  it('is the built-in codec where the runtime has one', () => {
    const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
    expect(codecName).toBe(major > 22 || (major === 22 && minor >= 15) ? 'node:zlib' : 'zstd-codec')
  })
})
