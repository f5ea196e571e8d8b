import { isDeepStrictEqual } from 'node:util'
import { runInNewContext } from 'node:vm'
import * as fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { isLosslessJson, LosslessJsonError, snapshot } from '../../server/json/lossless.ts'
import { depthOf, jsonValue, nest } from '../helpers/json-arbitraries.ts'

function rejection(value: unknown): LosslessJsonError {
  try {
    snapshot(value)
  } catch (error) {
    expect(error).toBeInstanceOf(LosslessJsonError)
    return error as LosslessJsonError
  }
  throw new Error('snapshot accepted the value')
}

function cycle(): unknown {
  const value: Record<string, unknown> = { list: [] }
  value['list'] = [1, value]
  return value
}

class Point {
  x = 1
}

class Rows extends Array<number> {}

const withNamedExtra = (): number[] => Object.assign([1, 2], { note: 'x' })
const long = (): number[] => Array.from({ length: 1000 }, (_, index) => index)
const without = (list: number[], index: number): number[] => {
  Reflect.deleteProperty(list, index)
  return list
}

describe('what is rejected (core.md §2.2, C008) [core-2.2.values] [core-2.2.objects]', () => {
  const cases: [name: string, value: unknown, path: string, reason: string][] = [
    ['undefined', undefined, '$', 'undefined is not JSON'],
    ['an undefined member', { a: undefined }, '$.a', 'undefined is not JSON'],
    ['an undefined item', [undefined], '$[0]', 'undefined is not JSON'],
    ['NaN', { n: NaN }, '$.n', 'NaN is not JSON'],
    ['Infinity', [Infinity], '$[0]', 'Infinity is not JSON'],
    ['-Infinity', -Infinity, '$', '-Infinity is not JSON'],
    ['-0', [[-0]], '$[0][0]', '-0 is not JSON'],
    ['a bigint', 1n, '$', 'a bigint is not JSON'],
    ['a symbol', { s: Symbol('x') }, '$.s', 'a symbol is not JSON'],
    ['a function', { f: () => 1 }, '$.f', 'a function is not JSON'],
    ['an own toJSON function', { toJSON: () => 1 }, '$.toJSON', 'a function is not JSON'],
    ['a Date in a row', { rows: [1, 2, 3, { at: new Date(0) }] }, '$.rows[3].at', 'Date is not JSON'],
    ['a Map', new Map(), '$', 'Map is not JSON'],
    ['a Set', { a: new Set() }, '$.a', 'Set is not JSON'],
    ['a RegExp', /x/, '$', 'RegExp is not JSON'],
    ['an Error', new TypeError('x'), '$', 'TypeError is not JSON'],
    ['a Promise', { p: Promise.resolve(1) }, '$.p', 'Promise is not JSON'],
    ['a boxed string', Object('x'), '$', 'String is not JSON'],
    ['a Buffer', Buffer.from('a'), '$', 'Buffer is not JSON'],
    ['a typed array', new Uint8Array(1), '$', 'Uint8Array is not JSON'],
    ['an ArrayBuffer', new ArrayBuffer(1), '$', 'ArrayBuffer is not JSON'],
    ['a class instance', [new Point()], '$[0]', 'Point is not JSON'],
    ['an array subclass', Rows.from([1]), '$', 'Rows is not JSON'],
    [
      'an instance of an anonymous class',
      new (class {
        x = 1
      })(),
      '$',
      'an object that is not plain is not JSON'
    ],
    ['an object made from another', Object.create({ a: 1 }), '$', 'an object that is not plain is not JSON'],
    [
      'an object whose prototype has no constructor',
      Object.create(Object.create(null)),
      '$',
      'an object that is not plain is not JSON'
    ],
    ['an array without prototype', Object.setPrototypeOf([1], null), '$', 'an array that is not plain is not JSON'],
    ['a cycle', cycle(), '$.list[1]', 'a circular reference is not JSON'],
    ['a symbol key', [{ [Symbol('a')]: 1 }], '$[0]', 'an object with a symbol key is not JSON'],
    [
      'a hidden member',
      Object.defineProperty({}, 'h', { value: 1 }),
      '$',
      'an object with a non-enumerable property is not JSON'
    ]
  ]
  it.each(cases)('%s', (_name, value, path, reason) => {
    const error = rejection(value)
    expect(error.path).toBe(path)
    expect(error.reason).toBe(reason)
    expect(error.message).toContain('lossless JSON')
    expect(error.message).toContain(`${path}: ${reason}`)
    expect(isLosslessJson(value)).toBe(false)
  })

  const arrays: [name: string, value: unknown[]][] = [
    ['a hole', [1, , 2]], // eslint-disable-line no-sparse-arrays
    ['only holes', Array(3)],
    ['a length of four billion', Array(4_294_967_295)],
    ['a named property', withNamedExtra()],
    ['a hole and a named property', Object.assign([1, , 2], { x: 1 })], // eslint-disable-line no-sparse-arrays
    ['a symbol property', Object.assign([1], { [Symbol('s')]: 1 })],
    ['a hidden property', Object.defineProperty([1], 'h', { value: 1 })],
    ['a hole, in a long array', without(long(), 500)],
    ['a hole at its end, in a long array', without(long(), 999)],
    ['a named property, in a long array', Object.assign(long(), { note: 'x' })],
    ['a symbol property, in a long array', Object.assign(long(), { [Symbol('s')]: 1 })],
    ['a hidden property, in a long array', Object.defineProperty(long(), 'h', { value: 1 })]
  ]
  it.each(arrays)('an array with %s [core-2.2.arrays]', (_name, value) => {
    expect(rejection({ list: value })).toMatchObject({
      path: '$.list',
      reason: 'an array with holes or further properties is not JSON'
    })
    expect(isLosslessJson(value)).toBe(false)
  })

  it('a prototype that only says it is Object [core-2.2.objects]', () => {
    function Object_(): void {}
    Object.defineProperty(Object_, 'name', { value: 'Object' })
    expect(isLosslessJson(Object.create(Object_.prototype))).toBe(false)

    const bound = Object.bind(null)
    const prototype = { constructor: bound }
    Object.defineProperty(bound, 'prototype', { value: prototype })
    expect(isLosslessJson(Object.create(prototype))).toBe(false)

    // The true constructor, but not its prototype.
    expect(isLosslessJson(Object.create({ constructor: Object }))).toBe(false)
    expect(isLosslessJson(Object.setPrototypeOf([1], Object.create(Array.prototype)))).toBe(false)
  })

  it('says nothing of a class that hides its name, and runs none of its code', () => {
    class Hidden {
      x = 1
      static get name(): string {
        throw new Error('ran')
      }
    }
    expect(rejection(new Hidden()).reason).toBe('an object that is not plain is not JSON')
    expect(rejection({ a: new Rows() }).path).toBe('$.a')
  })
})

describe('what is accepted (core.md §2.1) [core-2.1]', () => {
  it('equals what went in, detached, with ordinary prototypes [core-2.4.detached]', () => {
    fc.assert(
      fc.property(jsonValue, (value) => {
        const copy = snapshot(value)
        expect(isDeepStrictEqual(copy, value)).toBe(true)
        expect(JSON.stringify(copy)).toBe(JSON.stringify(value))
        expect(isLosslessJson(value)).toBe(true)
        const inside = [[value, copy] as const]
        for (let pair = inside.pop(); pair !== undefined; pair = inside.pop()) {
          const [before, after] = pair
          if (typeof before !== 'object' || before === null) continue
          expect(after).not.toBe(before)
          expect(Object.getPrototypeOf(after)).toBe(Array.isArray(before) ? Array.prototype : Object.prototype)
          for (const key of Object.keys(before)) inside.push([(before as never)[key], (after as never)[key]])
        }
      })
    )
  })

  it('a record without prototype becomes an ordinary one', () => {
    const copy = snapshot(Object.assign(Object.create(null), { a: 1 }))
    expect(Object.getPrototypeOf(copy)).toBe(Object.prototype)
    expect(copy).toStrictEqual({ a: 1 })
  })

  it('values of another realm', () => {
    const foreign: unknown = runInNewContext('({ rows: [{ a: null }], deep: [[1]] })')
    expect(Object.getPrototypeOf(foreign)).not.toBe(Object.prototype)
    expect(snapshot(foreign)).toStrictEqual({ rows: [{ a: null }], deep: [[1]] })
    expect(rejection(runInNewContext('({ at: new Date(0) })')).reason).toBe('Date is not JSON')
    expect(isLosslessJson(runInNewContext('new (class Object {})()'))).toBe(false)
    expect(isLosslessJson(runInNewContext('new (class A extends Array {})()'))).toBe(false)
  })

  it('a proxy that behaves like a plain container', () => {
    expect(snapshot(new Proxy({ a: [1] }, {}))).toStrictEqual({ a: [1] })
    expect(snapshot(new Proxy([1, { b: 2 }], {}))).toStrictEqual([1, { b: 2 }])
    expect(snapshot(new Proxy(long(), {}))).toStrictEqual(long())
  })

  it('a proxy is asked for its length once', () => {
    let asked = 0
    const get = (target: number[], key: string | symbol): unknown => {
      if (key === 'length') asked += 1
      return key === 'length' && asked > 1 ? 4_294_967_295 : Reflect.get(target, key)
    }
    expect(snapshot(new Proxy([1, 2], { get }))).toStrictEqual([1, 2])
  })

  it('frozen values, long arrays, and the same object twice, which is copied twice [core-2.2.shared]', () => {
    expect(snapshot(Object.freeze([Object.freeze({ a: 1 })]))).toStrictEqual([{ a: 1 }])
    expect(snapshot(long())).toStrictEqual(long())
    const shared = { x: 1 }
    const copy = snapshot([shared, shared]) as [object, object]
    expect(copy).toStrictEqual([{ x: 1 }, { x: 1 }])
    expect(copy[0]).not.toBe(copy[1])
  })

  it('an own __proto__ key stays data (core.md §2.4) [core-2.4.proto]', () => {
    const copy = snapshot(JSON.parse('{"__proto__":{"polluted":true},"toString":1}')) as Record<string, unknown>
    expect(Object.keys(copy)).toEqual(['__proto__', 'toString'])
    expect(copy['polluted']).toBeUndefined()
    expect(Object.getPrototypeOf(copy)).toBe(Object.prototype)
    expect(Object.getOwnPropertyDescriptor(copy, '__proto__')).toEqual({
      value: { polluted: true },
      writable: true,
      enumerable: true,
      configurable: true
    })
  })
})

describe('toJSON on a prototype (core.md §2.3) [core-2.3.to-json]', () => {
  afterEach(() => {
    Reflect.deleteProperty(Object.prototype, 'toJSON')
  })

  it('is ignored', () => {
    const prototype: object = Object.prototype
    Object.defineProperty(prototype, 'toJSON', { value: () => 'forged', configurable: true })
    expect(snapshot({ a: [1] })).toEqual({ a: [1] })
  })
})

describe('getters (core.md §2.3)', () => {
  it('are read exactly once, so a changing answer cannot pass with one value and be stored with another [core-2.3.accessors] [core-2.5.boolean]', () => {
    let reads = 0
    const shifty = {
      get at() {
        reads += 1
        return reads === 1 ? 'first' : new Date(0)
      }
    }
    expect(snapshot({ list: [shifty] })).toStrictEqual({ list: [{ at: 'first' }] })
    expect(reads).toBe(1)
    expect(isLosslessJson(shifty)).toBe(false)
    expect(reads).toBe(2)
  })

  it('on array items are read exactly once too', () => {
    let reads = 0
    const list = Object.defineProperty([0, 1], 0, { enumerable: true, get: () => (reads += 1) })
    expect(snapshot(list)).toStrictEqual([1, 1])
    expect(reads).toBe(1)
  })

  it('let their own error through; the boolean test answers false [core-2.3.getter-throws] [core-2.5.boolean]', () => {
    const fault = new Error('from the getter')
    const throwing = {
      get a(): never {
        throw fault
      }
    }
    expect(() => snapshot({ deep: [throwing] })).toThrow(fault)
    expect(isLosslessJson(throwing)).toBe(false)
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    expect(() => snapshot({ proxy })).toThrow(TypeError)
    expect(isLosslessJson({ proxy })).toBe(false)
  })
})

describe('depth (core.md §2.5) [core-2.5.iterative]', () => {
  it.each([undefined, 'k'])('200,000 levels pass (member %s)', (key) => {
    const deep = nest(200_000, 'leaf', key)
    expect(depthOf(snapshot(deep))).toBe(200_000)
    expect(isLosslessJson(deep)).toBe(true)
  })

  it('a fault at the bottom is found, with a message that is still readable', () => {
    const error = rejection(nest(5000, new Date(0), 'k'))
    expect(error.reason).toBe('Date is not JSON')
    expect(error.path.startsWith('$.k.k.k')).toBe(true)
    expect(error.message.length).toBeLessThan(2000)
  })

  it('a cycle is found at any depth [core-2.2.cycles]', () => {
    const bottom: unknown[] = []
    const top = nest(5000, bottom)
    bottom.push(top)
    expect(rejection(top).reason).toBe('a circular reference is not JSON')
  })
})
