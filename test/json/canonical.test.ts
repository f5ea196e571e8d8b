import { isDeepStrictEqual } from 'node:util'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalJson } from '../../server/json/canonical.ts'
import type { JsonValue } from '../../server/json/lossless.ts'
import { jsonKey, jsonValue, nest } from '../helpers/json-arbitraries.ts'

/** The same by recursion, entry by entry: good enough for shallow values. */
function naive(value: JsonValue): string {
  if (Array.isArray(value)) return `[${value.map(naive).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${naive(item)}`).join(',')}}`
}

function reversed(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(reversed)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([key, item]) => [key, reversed(item)])
  )
}

describe('canonicalJson (core.md §26)', () => {
  it('agrees with a recursive writer, and is valid JSON of the same value', () => {
    fc.assert(
      fc.property(jsonValue, (value) => {
        expect(canonicalJson(value)).toBe(naive(value))
        expect(isDeepStrictEqual(JSON.parse(canonicalJson(value)), value)).toBe(true)
      })
    )
  })

  it('does not depend on the order of members, at any depth', () => {
    fc.assert(
      fc.property(jsonValue, (value) => {
        expect(canonicalJson(reversed(value))).toBe(canonicalJson(value))
      })
    )
  })

  it('does depend on the order of items', () => {
    expect(canonicalJson([1, 2])).not.toBe(canonicalJson([2, 1]))
  })

  it('sorts by code unit, integer-like names too, and keeps __proto__', () => {
    const value = JSON.parse('{"b":1,"__proto__":{"z":1,"a":2},"10":1,"9":1,"B":1,"é":1}') as JsonValue
    expect(canonicalJson(value)).toBe('{"10":1,"9":1,"B":1,"__proto__":{"a":2,"z":1},"b":1,"é":1}')
  })

  it('tells different members apart', () => {
    fc.assert(
      fc.property(jsonKey, jsonKey, (a, b) => {
        fc.pre(a !== b)
        expect(canonicalJson({ [a]: 1 })).not.toBe(canonicalJson({ [b]: 1 }))
      })
    )
  })

  it('writes 50,000 levels', () => {
    const text = canonicalJson(nest(50_000, { b: 1, a: 2 }, 'k') as JsonValue)
    expect(text.startsWith('{"k":{"k":')).toBe(true)
    expect(text).toContain('{"a":2,"b":1}')
    expect(text.length).toBe(50_000 * '{"k":}'.length + '{"a":2,"b":1}'.length)
  })
})
