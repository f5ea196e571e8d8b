import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  FrameReader,
  encodeFrame,
  failedReply,
  maxFrameBytes,
  parseWorldFrame,
  startFrame,
  valueReply
} from '../../server/code-runtime/protocol.js'
import { jsonValue } from '../helpers/json-arbitraries.ts'

const reader = (limit = maxFrameBytes) => new FrameReader(limit, String)

describe('frames on a pipe', () => {
  it('come out as they went in, however they are cut', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: 'grapheme' }), { maxLength: 8 }),
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }),
        (texts, cuts) => {
          const bytes = Buffer.concat(texts.map(encodeFrame))
          const pipe = reader()
          const found: string[] = []
          for (let at = 0, turn = 0; at < bytes.length; turn += 1) {
            const end = at + cuts[turn % cuts.length]!
            found.push(...pipe.push(bytes.subarray(at, end)))
            at = end
          }
          expect(found).toEqual(texts)
        }
      )
    )
  })

  it('of one byte at a time are put together, and what is left over is kept', () => {
    const pipe = reader()
    const bytes = Buffer.concat([encodeFrame('a'.repeat(5_000)), encodeFrame('b')])
    const found = [...bytes].flatMap((byte) => pipe.push(Buffer.from([byte])))
    expect(found).toEqual(['a'.repeat(5_000), 'b'])
    expect(pipe.push(Buffer.concat([encodeFrame('c'), encodeFrame('d').subarray(0, 3)]))).toEqual(['c'])
    expect(pipe.push(encodeFrame('d').subarray(3))).toEqual(['d'])
  })

  it('end the world when they claim to be too large', () => {
    expect(() => reader().push(Buffer.from([0xff, 0xff, 0xff, 0xff]))).toThrow(RangeError)
    expect(() => reader(8).push(encodeFrame('123456'))).toThrow(RangeError)
    expect(reader(8).push(encodeFrame('1234'))).toEqual(['1234'])
  })
})

describe('frames of a world (§8)', () => {
  it('are rebuilt member by member', () => {
    expect(parseWorldFrame('["call",3,"tools","add","extra"]\n{"a":1}')).toEqual({
      type: 'call',
      id: 3,
      global: 'tools',
      name: 'add',
      argument: '{"a":1}'
    })
    expect(parseWorldFrame('["log","a\\nb"]')).toEqual({ type: 'log', text: 'a\nb' })
    expect(parseWorldFrame('["done"]')).toEqual({ type: 'done', value: undefined })
    expect(parseWorldFrame('["failed","exception","m"]')).toEqual({ type: 'failed', kind: 'exception', message: 'm' })
  })

  it('are dropped without a throw when they mean nothing', () => {
    const junk = [
      '',
      'null',
      '1',
      '"x"',
      '[]',
      '{}',
      '[null]',
      '["call"]',
      '["call",1.5,"t","f"]\n{}',
      '["call",1,"t","f"]',
      '["log",5]',
      '["raw","fd9","x"]'
    ]
    junk.push(
      '["failed","abort","x"]',
      '["failed","toString","x"]',
      '["failed","exception",{}]',
      '["busy",1]',
      '["raw","stdout",""]',
      '["raw","stderr",""]',
      '["exit","0"]',
      '["__proto__"]'
    )
    for (const text of [...junk, undefined, null, 7, {}, []])
      expect(parseWorldFrame(text), String(text)).toBeUndefined()
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          jsonValue.map((value) => JSON.stringify(value))
        ),
        (text) => {
          expect(() => parseWorldFrame(text)).not.toThrow()
        }
      )
    )
  })

  it('of which a part could cost gigabytes are not parsed', () => {
    const many = '[],'.repeat(50_000)
    for (const text of [
      `[${many}0]`,
      `["log",${many}0]`,
      `["failed","exception",${many}"x"]`,
      `["call",1,"t","f",${many}0]\n1`
    ]) {
      expect(parseWorldFrame(text)).toBeUndefined()
    }
    expect(parseWorldFrame(`["log","${'x'.repeat(200_000)}"]`)).toMatchObject({ type: 'log' })
    expect(parseWorldFrame(`["done"]\n"${'x'.repeat(200_000)}"`)).toMatchObject({ type: 'done' })
    for (const text of ['["log","a","b"]', '["log","a"', '["log",["a"]]', '["log","a"]x', '["raw","stdout"]'])
      expect(parseWorldFrame(text), text).toBeUndefined()
  })

  it('to a world hold names and messages of any characters in one line', () => {
    for (const frame of [
      startFrame([{ global: 'tools', names: ['a\nb'], errorClass: undefined }], 'x'),
      valueReply(1, '{}')
    ]) {
      expect(frame.split('\n')).toHaveLength(2)
    }
    expect(failedReply(1, 'a\nb')).not.toContain('\n')
  })
})
