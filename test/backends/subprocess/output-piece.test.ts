import { describe, expect, it } from 'vitest'
import { pieceOf } from '../../../server/backends/subprocess/output-window.ts'

/** What is kept of a stream: the bytes of `text` from `cut` on. */
const tailOf = (text: string, cut = 0) => {
  const bytes = Buffer.from(text)
  return { bytes: bytes.subarray(cut), total: bytes.length }
}

describe('a bounded piece of a stream (api.md §7)', () => {
  it('is cut between characters, and one character at least', () => {
    const tail = tailOf('a你b')
    expect(pieceOf(tail, 0, 3, true)).toEqual({ text: 'a', from: 0, nextOffset: 1, lossy: false })
    for (const maxBytes of [1, 2, 3]) {
      expect(pieceOf(tail, 1, maxBytes, true)).toEqual({ text: '你', from: 1, nextOffset: 4, lossy: false })
    }
    expect(pieceOf(tail, 0, 99, true)).toEqual({ text: 'a你b', from: 0, nextOffset: 5, lossy: false })
  })

  it('begins at a character when the offset lies inside one', () => {
    expect(pieceOf(tailOf('a你b'), 2, 99, true)).toEqual({ text: 'b', from: 4, nextOffset: 5, lossy: false })
  })

  it('says when the offset is no longer kept, and takes one beyond the end for the end', () => {
    expect(pieceOf(tailOf('a你b', 2), 0, 99, true)).toEqual({ text: 'b', from: 4, nextOffset: 5, lossy: true })
    expect(pieceOf(tailOf('a你b', 2), 999, 99, true)).toEqual({ text: '', from: 5, nextOffset: 5, lossy: false })
  })

  it('holds back a character whose rest may come, until the end', () => {
    const tail = { bytes: Buffer.from('a你').subarray(0, 3), total: 3 }
    expect(pieceOf(tail, 0, 99, false)).toEqual({ text: 'a', from: 0, nextOffset: 1, lossy: false })
    for (const maxBytes of [1, 2, 99]) expect(pieceOf(tail, 1, maxBytes, false).text).toBe('')
    expect(pieceOf(tail, 0, 99, true)).toEqual({ text: 'a\ufffd', from: 0, nextOffset: 3, lossy: false })
  })

  it('walks any stream to its end in pieces of any size', () => {
    const text = 'a你😀é\n'.repeat(20)
    const broken = Buffer.concat([Buffer.from(text), Buffer.from([0x80, 0xff, 0xe4, 0xbd, 0x61])])
    for (const bytes of [Buffer.from(text), broken]) {
      const tail = { bytes, total: bytes.length }
      for (let size = 1; size <= 9; size++) {
        let walked = ''
        for (let at = 0; at < bytes.length;) {
          const { text: piece, nextOffset } = pieceOf(tail, at, size, true)
          expect(nextOffset).toBeGreaterThan(at)
          walked += piece
          at = nextOffset
        }
        expect(walked.startsWith(text)).toBe(true)
        expect(walked.replace(text, '')).not.toMatch(/[^\ufffda]/)
      }
    }
  })
})
