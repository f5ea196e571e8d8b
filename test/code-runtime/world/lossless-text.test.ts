import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isLossy, losslessText, tooLong } from '../../../server/code-runtime/world/lossless-text.js'
import { isLosslessJson } from '../../../server/json/lossless.ts'
import { depthOf, jsonValue, nest } from '../../helpers/json-arbitraries.ts'

const text = (value: unknown) => losslessText(value, Infinity)

function thrownBy(body: () => unknown): unknown {
  try {
    return [body()]
  } catch (error) {
    return error
  }
}

describe('JSON text of a program’s value (§9)', () => {
  it('is that of JSON.stringify for every JSON value', () => {
    fc.assert(
      fc.property(jsonValue, (value) => {
        expect(text(value)).toBe(JSON.stringify(value))
      })
    )
  })

  it('agrees with the server on what is lossless', () => {
    fc.assert(
      fc.property(
        fc.anything({
          withBigInt: true,
          withDate: true,
          withMap: true,
          withNullPrototype: true,
          withSparseArray: true,
          withTypedArray: true
        }),
        (value) => {
          let isAccepted = true
          try {
            text(value)
          } catch (error) {
            expect(isLossy(error)).toBe(true)
            isAccepted = false
          }
          expect(isAccepted).toBe(isLosslessJson(value))
        }
      )
    )
  })

  it('knows no depth', () => {
    expect(depthOf(JSON.parse(text(nest(200_000, 'leaf'))))).toBe(200_000)
    expect(text(nest(5_000, 1, 'k')).length).toBe(5_000 * 6 + 1)
  })

  it('stops at a length that nobody would take', () => {
    for (const value of ['x'.repeat(11), ['x'.repeat(11)], Array.from({ length: 20 }, () => 1)]) {
      expect(thrownBy(() => losslessText(value, 10))).toBe(tooLong)
    }
    expect(losslessText('12345678', 10)).toBe('"12345678"')
  })
})
