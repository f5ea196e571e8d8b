import { describe, expect, it } from 'vitest'
import { LiveOutput } from '../../../server/backends/terminals/host/live-output.js'
import { Transcript } from '../../../server/backends/terminals/host/transcript.js'
import { until } from '../../helpers/until.ts'

const limits = { scrollbackLines: 100, scrollbackBytes: 1_000, viewportBytes: 100 }

function transcriptOf(text: string, more: Partial<typeof limits> = {}): Transcript {
  const transcript = new Transcript({ ...limits, ...more })
  transcript.write(text)
  return transcript
}

describe('pages (backends.md §5.3)', () => {
  const numbers = transcriptOf(Array.from({ length: 20 }, (_, at) => `${at + 1}\n`).join(''))

  it('C30 counts back from the newest line', () => {
    expect(numbers.page(0, 3)).toEqual({
      text: '18\n19\n20',
      totalLines: 20,
      lineBegin: 0,
      lineEnd: 3,
      truncated: false
    })
    expect(numbers.page(3, 2)).toMatchObject({ text: '16\n17', lineBegin: 3, lineEnd: 5 })
    expect(numbers.page(18, 5)).toMatchObject({ text: '1\n2', lineBegin: 18, lineEnd: 20 })
    expect(numbers.page(20, 5)).toMatchObject({ text: '', lineBegin: 20, lineEnd: 20 })
    expect(numbers.page(Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)).toMatchObject({ text: '', totalLines: 20 })
    expect(numbers.page(0, Number.MAX_SAFE_INTEGER).lineEnd).toBe(20)
  })

  it('counts an unfinished line, and no empty one after the last newline', () => {
    expect(transcriptOf('a\n$ ').page(0, 9)).toMatchObject({ text: 'a\n$ ', totalLines: 2 })
    expect(transcriptOf('a\n\n').page(0, 9)).toMatchObject({ text: 'a\n', totalLines: 2 })
    expect(transcriptOf('').page(0, 9)).toMatchObject({ text: '', totalLines: 0, lineEnd: 0 })
  })

  it('keeps the newest lines and bytes, and no part of a line while there are whole ones', () => {
    expect(transcriptOf('x\n'.repeat(200)).page(0, 500)).toMatchObject({ totalLines: 100, truncated: true })
    const many = transcriptOf('ab你好\n'.repeat(1_000))
    expect(new Set(many.page(0, 5).text.split('\n'))).toEqual(new Set(['ab你好']))
    expect(many.page(0, 500).totalLines).toBe(100)
    expect(transcriptOf('你'.repeat(1_000)).page(0, 1)).toMatchObject({
      text: '你'.repeat(33),
      totalLines: 1,
      truncated: true
    })
  })

  it('cuts a page at the front, between characters', () => {
    const { text, truncated } = transcriptOf(`${'é'.repeat(99)}\n`).page(0, 1)
    expect({ length: text.length, truncated }).toEqual({ length: 50, truncated: true })
  })
})

describe('pieces by offset', () => {
  it('F29 never splits a character, and gives one at least', () => {
    const transcript = transcriptOf('a你🦊')
    expect(transcript.head(0, 3)).toEqual({ text: 'a', from: 0, next: 1, lossy: false })
    expect(transcript.head(1, 1)).toEqual({ text: '你', from: 1, next: 4, lossy: false })
    expect(transcript.head(2, 9)).toEqual({ text: '🦊', from: 4, next: 8, lossy: false })
    expect(transcript.head(0, 9, 4)).toEqual({ text: 'a你', from: 0, next: 4, lossy: false })
  })

  it('F31 a cursor beyond the end is the end', () => {
    expect(transcriptOf('abc').head(999_999, 9)).toEqual({ text: '', from: 3, next: 3, lossy: false })
  })

  it('F35 tells what is no longer kept', () => {
    const transcript = transcriptOf('x'.repeat(5_000))
    expect(transcript.head(10, 5)).toEqual({ text: 'xxxxx', from: 4_000, next: 4_005, lossy: true })
    expect(transcript.head(4_000, 5).lossy).toBe(false)
    // A window that ended before what is kept.
    expect(transcript.head(10, 5, 20)).toMatchObject({ text: '', lossy: true })
    expect(transcript.tail(10)).toEqual({ text: 'x'.repeat(100), lossy: true })
    expect(transcript.tail(4_950, 4_960)).toEqual({ text: 'x'.repeat(10), lossy: false })
  })
})

it('live output is bounded, and its offsets tell what was left out', async () => {
  const transcript = transcriptOf('', { scrollbackBytes: 100_000 })
  const posted: { text: string; offset: number }[] = []
  const live = new LiveOutput(transcript, 2_000, (text, offset) => posted.push({ text, offset }))
  transcript.write('first')
  live.notice()
  live.end()
  transcript.write('é'.repeat(10_000))
  live.notice()
  await until(() => posted.length === 2)
  expect(posted[0]).toEqual({ text: 'first', offset: 0 })
  const { text, offset } = posted[1]!
  expect(text).toBe('é'.repeat(50))
  expect(offset + Buffer.byteLength(text)).toBe(transcript.total)
})
