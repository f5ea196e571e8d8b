import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BlobError, pack, unpack } from '../../server/event-log/blobs.js'
import { compress } from '../../server/event-log/zstd.js'

const packed = (text: string) => {
  const cell = pack(text)
  if (typeof cell === 'string') throw new Error('not packed')
  return cell
}

describe('blobs', () => {
  it('keeps short and incompressible texts as they are, and packs the others', () => {
    expect(pack('x'.repeat(900))).toBe('x'.repeat(900))
    const noise = Array.from({ length: 3000 }, (_, n) => String.fromCharCode(33 + ((n * n * 7919) % 94))).join('')
    expect(unpack(pack(noise))).toBe(noise)
    const dull = 'dull '.repeat(1000)
    expect(packed(dull).length).toBeLessThan(200)
    expect(unpack(pack(dull))).toBe(dull)
  })

  it('counts bytes and not characters', () => {
    expect(pack('€'.repeat(700))).toBeInstanceOf(Buffer)
    expect(unpack(pack('€'.repeat(700)))).toBe('€'.repeat(700))
  })

  it('gives back any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.integer({ min: 1, max: 3000 }), (unit, times) => {
        const text = unit.repeat(times).slice(0, 100_000)
        expect(unpack(pack(text))).toBe(text)
      })
    )
    const large = 'large '.repeat(1_000_000)
    expect(unpack(pack(large))).toBe(large)
  })

  it('never hands on a changed text, whichever bit flips', () => {
    const text = 'every bit of this counts '.repeat(200)
    const cell = packed(text)
    let unseen = 0
    for (let bit = 0; bit < cell.length * 8; bit += 1) {
      const flipped = Buffer.from(cell)
      flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      try {
        // One bit of a frame's header means nothing.
        expect(unpack(flipped), `bit ${bit}`).toBe(text)
        unseen += 1
      } catch (error) {
        expect(error).toBeInstanceOf(BlobError)
      }
    }
    expect(unseen).toBeLessThan(4)
  })

  it('S16: a planted bomb is refused by its size or its hash, before or without growing', () => {
    const frames = compress(Buffer.alloc(1024 * 1024))
    const header = Buffer.alloc(40)
    header.writeBigUInt64LE(50n, 0)
    expect(() => unpack(Buffer.concat([header, ...Array.from({ length: 5000 }, () => frames)]))).toThrow(BlobError)
    header.writeBigUInt64LE(2n ** 62n, 0)
    expect(() => unpack(Buffer.concat([header, frames]))).toThrow(BlobError)
    expect(() => unpack(Buffer.alloc(39))).toThrow(BlobError)
    expect(() => unpack(Buffer.alloc(0))).toThrow(BlobError)
  })
})
