import * as fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import type { JsonValue } from '../../server/json/lossless.ts'
import { stringifyJson, writeJson } from '../../server/json/serialize.ts'
import { depthOf, jsonValue, nest } from '../helpers/json-arbitraries.ts'

describe('stringifyJson (core.md §2.7)', () => {
  it('writes what JSON.stringify writes, on both of its ways', () => {
    fc.assert(
      fc.property(jsonValue, (value) => {
        expect(stringifyJson(value)).toBe(JSON.stringify(value))
        expect(writeJson(value, Object.keys)).toBe(JSON.stringify(value))
      })
    )
  })

  it.each([undefined, 'k'])('writes 50,000 levels, which JSON.stringify cannot (member %s)', (key) => {
    const deep = nest(50_000, [1, 'leaf', { a: null }], key) as JsonValue
    expect(() => JSON.stringify(deep)).toThrow(RangeError)
    const text = stringifyJson(deep)
    expect(text.includes('[1,"leaf",{"a":null}]')).toBe(true)
    expect(depthOf(JSON.parse(text))).toBe(50_001)
  })

  it('lets an error through that is not about depth', () => {
    const fault = new TypeError('from the getter')
    const value = {
      get a(): never {
        throw fault
      }
    }
    expect(() => stringifyJson(value)).toThrow(fault)
  })
})

describe('with a toJSON on a prototype', () => {
  afterEach(() => {
    Reflect.deleteProperty(Object.prototype, 'toJSON')
    Reflect.deleteProperty(Array.prototype, 'toJSON')
  })

  it.each([Object.prototype, Array.prototype])('the value itself is written (core.md §2.3)', (prototype) => {
    Object.defineProperty(prototype, 'toJSON', { value: () => 'forged', configurable: true })
    expect(stringifyJson({ a: [1, { b: 'x' }], c: [] })).toBe('{"a":[1,{"b":"x"}],"c":[]}')
  })

  it('an own toJSON that is data is written as data', () => {
    expect(stringifyJson({ toJSON: 'x' })).toBe('{"toJSON":"x"}')
  })
})
