import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { faultOf, hasTooManyValues } from '../../server/code-runtime/json-text.js'
import { jsonValue } from '../helpers/json-arbitraries.ts'

/** Containers, and the commas between what they hold. */
function count(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const items = Object.values(value)
  return 1 + Math.max(0, items.length - 1) + items.reduce((sum: number, item) => sum + count(item), 0)
}

describe('texts of a world (§8)', () => {
  it('hold as many values as containers and commas, whatever their strings say', () => {
    fc.assert(
      fc.property(jsonValue, fc.integer({ min: 0, max: 30 }), (value, limit) => {
        expect(hasTooManyValues(JSON.stringify(value), limit)).toBe(count(value) > limit)
      })
    )
    expect(hasTooManyValues(JSON.stringify(['[[[,,,"\\', '\\\\', '",']), 3)).toBe(false)
    expect(hasTooManyValues(JSON.stringify(['[[[,,,"\\', '\\\\', '",']), 2)).toBe(true)
    expect(hasTooManyValues('["without an end,,,,,', 1)).toBe(false)
    expect(hasTooManyValues(`[${'"\\\\'.repeat(5)}`, 3)).toBe(false)
  })

  it('are faultless when they are lossless JSON', () => {
    fc.assert(
      fc.property(jsonValue, (value) => {
        expect(faultOf(JSON.stringify(value))).toBeUndefined()
      })
    )
    for (const text of ['"2024-01-05"', '["-0","1e999"]', '1e3', '9'.repeat(308), '0', '{"-0":1}']) {
      expect(faultOf(text), text).toBeUndefined()
    }
  })

  it.each(['', '{', '1 2', 'undefined', '[1,]'])('%j is no JSON', (text) => {
    expect(faultOf(text)).toBe('it is no JSON')
  })

  it.each(['-0', '[-0.0]', '{"a":[1,{"b":-0}]}', '1e999', '-1E400', '-0e5'])('%s loses a number', (text) => {
    expect(faultOf(text)).toContain('number')
  })

  it('with a number beyond every double lose it, wherever it stands', () => {
    for (let before = 0; before < 301; before += 7) {
      const text = `["${'x'.repeat(before)}",${'9'.repeat(310)}]`
      expect(faultOf(text)).toContain('number')
      expect(faultOf(text.replace('9]', '.5]'))).toContain('number')
    }
  })

  it('with many long runs of digits are read in one pass', () => {
    // Looked at from each digit anew, this took ten seconds.
    expect(faultOf(JSON.stringify(`${'1'.repeat(299)}x`.repeat(40_000)))).toBeUndefined()
  })
})
