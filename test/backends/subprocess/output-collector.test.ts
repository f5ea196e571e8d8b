import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { OutputCollector } from '../../../server/backends/subprocess/output-collector.js'
import { windowOf } from '../../../server/backends/subprocess/output-window.ts'
import { LiveFeed } from '../../../server/backends/subprocess/live-feed.js'
import { partialEnd, partialStart } from '../../../server/backends/subprocess/utf8-cut.js'

describe('OutputCollector', () => {
  it('holds the last bytes exactly, whatever the chunks are', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 50 }),
        fc.array(fc.uint8Array({ maxLength: 120 })),
        fc.nat(500),
        (maxBytes, chunks, offset) => {
          const collector = new OutputCollector({ maxBytes })
          for (const chunk of chunks) collector.write(Buffer.from(chunk))
          const all = Buffer.concat(chunks)
          const start = Math.max(offset, all.length - maxBytes, 0)
          expect(collector.tailFrom(offset)).toEqual({ bytes: new Uint8Array(all.subarray(start)), total: all.length })
        }
      )
    )
  })

  it('takes nothing after it is sealed', () => {
    const collector = new OutputCollector({ maxBytes: 10 })
    collector.write(Buffer.from('abc'))
    expect(Buffer.from(collector.seal().bytes).toString()).toBe('abc')
    collector.write(Buffer.from('def'))
    expect(collector.tailFrom(0).total).toBe(3)
  })
})

describe('windowOf', () => {
  it('gives the whole text back in consecutive reads of a stream that grows byte by byte', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        const bytes = Buffer.from(text)
        let offset = 0
        let seen = ''
        for (let total = 0; total <= bytes.length; total++) {
          const window = windowOf({ bytes: bytes.subarray(0, total), total }, offset, total === bytes.length)
          seen += window.text
          offset = window.nextOffset
        }
        expect(seen).toBe(bytes.toString())
      })
    )
  })

  it('drops the half of a character that slid away, and shows one that never came as U+FFFD', () => {
    const bytes = Buffer.from('你好').subarray(1)
    expect(windowOf({ bytes, total: 6 }, 0, true)).toEqual({ text: '好', nextOffset: 6, lossy: true })
    expect(windowOf({ bytes: bytes.subarray(0, 4), total: 5 }, 0, true).text).toBe('\ufffd')
    expect(windowOf({ bytes: bytes.subarray(0, 4), total: 5 }, 0, false)).toEqual({
      text: '',
      nextOffset: 3,
      lossy: true
    })
  })
})

describe('LiveFeed', () => {
  it('never breaks a character, whatever the chunks and the budget are (F29)', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme', minLength: 1 }),
        fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1 }),
        fc.integer({ min: 1, max: 60 }),
        (text, sizes, budget) => {
          const bytes = Buffer.from(text)
          const texts: string[] = []
          const feed = new LiveFeed(budget, (piece: string) => texts.push(piece))
          for (let at = 0, turn = 0; at < bytes.length; turn++) {
            const size = sizes[turn % sizes.length]!
            feed.write('stdout', bytes.subarray(at, at + size))
            at += size
          }
          feed.end()
          const seen = texts.join('').split('\n[')
          expect(bytes.toString().startsWith(seen[0]!)).toBe(true)
          const skipped = Number(/^(\d+) bytes are not shown live\]\n$/.exec(seen[1] ?? '')?.[1] ?? 0)
          expect(Buffer.byteLength(seen[0]!) + skipped).toBe(bytes.length)
        }
      )
    )
  })

  it('keeps the characters of the two streams apart', () => {
    const texts: string[] = []
    const feed = new LiveFeed(1000, (piece: string) => texts.push(piece))
    feed.write('stdout', Buffer.from([0xe4, 0xbd]))
    feed.write('stderr', Buffer.from('x'))
    feed.write('stdout', Buffer.from([0xa0]))
    feed.end()
    expect(texts.join('')).toBe('x你')
  })
})

it('finds partial characters at both ends', () => {
  expect(
    ['a', 'é', '你', '😀'].map((text) => Buffer.from(text)).map((bytes) => [partialEnd(bytes), partialStart(bytes)])
  ).toEqual([
    [0, 0],
    [0, 0],
    [0, 0],
    [0, 0]
  ])
  const emoji = Buffer.from('😀')
  expect([1, 2, 3].map((length) => partialEnd(emoji.subarray(0, length)))).toEqual([1, 2, 3])
  expect([1, 2, 3].map((from) => partialStart(emoji.subarray(from)))).toEqual([3, 2, 1])
  expect(partialEnd(Buffer.from([0xff]))).toBe(0)
  expect(partialEnd(Buffer.from([0x80, 0x80, 0x80, 0x80]))).toBe(0)
})
