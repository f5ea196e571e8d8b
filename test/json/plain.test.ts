import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import { hasOnlyItems, isDenseArray, isRecord, ownValue, setOwn } from '../../server/json/plain.ts'

describe('isRecord', () => {
  it('is true for plain objects of any realm with enumerable string keys only', () => {
    expect(isRecord({ a: 1 })).toBe(true)
    expect(isRecord(Object.create(null))).toBe(true)
    expect(isRecord(runInNewContext('({})'))).toBe(true)
  })

  it.each([null, 1, 'x', [], new Date(0), () => 1, { [Symbol('s')]: 1 }, Object.defineProperty({}, 'a', { value: 1 })])(
    'is false for %o',
    (value) => {
      expect(isRecord(value)).toBe(false)
    }
  )

  it('runs no getter', () => {
    let ran = false
    expect(isRecord(Object.defineProperty({}, 'a', { enumerable: true, get: () => (ran = true) }))).toBe(true)
    expect(ran).toBe(false)
  })
})

describe('isDenseArray', () => {
  it('is true for plain arrays of any realm that hold their items alone', () => {
    expect(isDenseArray([])).toBe(true)
    expect(isDenseArray([undefined])).toBe(true)
    expect(isDenseArray(runInNewContext('[1]'))).toBe(true)
    expect(isDenseArray({ length: 0 })).toBe(false)
    expect(isDenseArray(new (class extends Array {})())).toBe(false)
  })

  it('is not taken in by a proxy that lists its keys in another order', () => {
    const ownKeys = (): string[] => ['length', '0']
    expect(hasOnlyItems(new Proxy([1], { ownKeys }), 1)).toBe(false)
  })

  it('runs no getter of a long array', () => {
    const list = Array.from({ length: 300 }, () => 1)
    let ran = false
    Object.defineProperty(list, Symbol.toStringTag, { get: () => (ran = true) })
    expect(isDenseArray(list)).toBe(false)
    expect(ran).toBe(false)
  })

  it('sees a hole that a polluted prototype would fill, in a long array', () => {
    const list: unknown[] = Array.from({ length: 300 }, () => 1)
    Reflect.deleteProperty(list, 7)
    expect(hasOnlyItems(list, 300)).toBe(false)
  })
})

describe('setOwn and ownValue', () => {
  it('set and read own properties of any name, the prototype untouched', () => {
    for (const name of ['a', '__proto__', 'constructor', 'toString']) {
      const target = {}
      expect(ownValue(target, name)).toBeUndefined()
      setOwn(target, name, 1)
      expect(ownValue(target, name)).toBe(1)
      expect(Object.keys(target)).toEqual([name])
      expect(Object.getPrototypeOf(target)).toBe(Object.prototype)
    }
  })
})
