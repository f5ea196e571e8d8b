import { inspect, isDeepStrictEqual } from 'node:util'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonValue } from '../../server/json/lossless.ts'
import { poisonKeyPath, unsafeNumberPath, unsafeNumberPaths } from '../../server/json/parse-body.ts'
import { JsonTextError, parseJson } from '../../server/json/parse-text.js'
import { depthOf, jsonValue } from '../helpers/json-arbitraries.ts'

function fault(text: string, maxDepth?: number): JsonTextError {
  try {
    parseJson(text, maxDepth === undefined ? {} : { maxDepth })
  } catch (error) {
    expect(error).toBeInstanceOf(JsonTextError)
    return error as JsonTextError
  }
  throw new Error('parseJson accepted the text')
}

function deepest(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  return 1 + Math.max(0, ...Object.values(value).map(deepest))
}

describe('parseJson', () => {
  it('reads what JSON.stringify wrote, spaced out or not', () => {
    fc.assert(
      fc.property(jsonValue, fc.constantFrom(0, 2), (value, indent) => {
        expect(isDeepStrictEqual(parseJson(JSON.stringify(value, null, indent), { maxDepth: 64 }), value)).toBe(true)
      })
    )
  })

  it('refuses exactly what nests deeper than the limit, brackets in strings aside', () => {
    fc.assert(
      fc.property(jsonValue, (value) => {
        const depth = deepest(value)
        const text = JSON.stringify([value, '[[{"\\'])
        expect(isDeepStrictEqual(parseJson(text, { maxDepth: depth + 1 }), [value, '[[{"\\'])).toBe(true)
        expect(fault(text, depth).reason).toBe('depth')
      })
    )
  })

  it('has no limit of its own', () => {
    expect(depthOf(parseJson('['.repeat(100_000) + ']'.repeat(100_000)))).toBe(100_000)
  })

  it('names the limit, and finds it without building anything', () => {
    expect(fault('['.repeat(1_000_000), 256).message).toContain('256')
    expect(fault('{"a":'.repeat(257), 256).reason).toBe('depth')
    expect(fault('['.repeat(256), 256).reason).toBe('syntax')
    expect(parseJson('[[],[],[]]', { maxDepth: 2 })).toEqual([[], [], []])
  })

  it.each(['', 'not json', '{"a":}', '[1,]', '\ufeff{}', '"open', '"\\', "{'a':1}", 'NaN', '01'])(
    'refuses %j as syntax',
    (text) => {
      expect(fault(text).reason).toBe('syntax')
      expect(fault(text, 0)).toBeInstanceOf(JsonTextError)
    }
  )

  it('says where, and repeats nothing of the text', () => {
    expect(fault('{"password":"hunter2" x').message).toMatch(/position 22/)
    expect(fault('hunter2').message).not.toContain('hunter')
    expect(inspect(fault('hunter2'))).not.toContain('"hunter')
  })

  it('keeps an own __proto__ key as data', () => {
    const value = parseJson('{"__proto__":{"a":1}}') as Record<string, unknown>
    expect(Object.keys(value)).toEqual(['__proto__'])
    expect(value['a']).toBeUndefined()
  })
})

describe('unsafeNumberPath (core.md §2.8, F37) [core-2.8.unsafe-scan]', () => {
  it.each([
    ['{"id":2512292042121000001}', '$.id'],
    ['9007199254740993', '$'],
    ['9007199254740992', '$'],
    ['-9007199254740992', '$'],
    ['[1,2,[3,{"a b":[0,12345678901234567890]}]]', '$[2][1]["a b"][1]'],
    ['{"a":{"x":1},"b":[[],{}],"c":9007199254740993}', '$.c'],
    ['{"a\\"]":[9007199254740993]}', '$["a\\"]"][0]'],
    ['{ "a" :\n\t9007199254740993 }', '$.a'],
    ['{"a":[{"b":1},{"b":9007199254740993}],"c":9007199254740993}', '$.a[1].b'],
    ['9007199254740993.0', '$'],
    ['9.007199254740993e15', '$'],
    ['90071992547409930e-1', '$'],
    ['0.9007199254740993e16', '$'],
    [`1${'0'.repeat(400)}`, '$']
  ])('%s → %s', (text, path) => {
    expect(unsafeNumberPath(text)).toBe(path)
  })

  it.each([
    '9007199254740991',
    '-9007199254740991',
    '9007199254740991.0',
    '9007199254740990e0',
    '1e15',
    '1e21',
    '1e23',
    '0.5e17',
    '1E+100',
    '1.7976931348623157e308',
    '1e400',
    '-1e400',
    '5e-324',
    '0.12345678901234567890',
    '9007199254740992.5',
    '0.0e30',
    '"9007199254740993"',
    '{"9007199254740993":1}',
    '["\\"",9007199254740991,"a9007199254740993"]',
    '[true,false,null,{},[]]',
    ''
  ])('%s is fine', (text) => {
    expect(unsafeNumberPath(text)).toBeUndefined()
  })

  it('finds any integer that a double would round, wherever it stands', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }), jsonValue, (integer, around) => {
        const text = JSON.stringify({ around, list: [around, 'HERE'] }).replace(/"HERE"(?=\]\}$)/, String(integer))
        const magnitude = integer < 0n ? -integer : integer
        const aroundIsUnsafe = unsafeNumberPath(JSON.stringify(around)) !== undefined
        fc.pre(!aroundIsUnsafe)
        expect(unsafeNumberPath(text)).toBe(magnitude > 2n ** 53n - 1n ? '$.list[1]' : undefined)
      })
    )
  })

  it('leaves alone every double that JSON.stringify writes with a point or an exponent', () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (number) => {
        const text = JSON.stringify(number)
        fc.pre(/[.e]/.test(text))
        expect(unsafeNumberPath(text)).toBeUndefined()
      })
    )
  })

  it('gives one path for each group', () => {
    const text =
      '{"calls":[{"a":[9007199254740993,9007199254740993]},{"a":1},{"b":{"c":9007199254740993},"d":9007199254740993}]}'
    expect(unsafeNumberPaths(text, 2)).toEqual([
      ['calls', 0, 'a', 0],
      ['calls', 2, 'b', 'c']
    ])
    expect(unsafeNumberPaths(text, 0)).toEqual([['calls', 0, 'a', 0]])
    expect(unsafeNumberPaths('[9007199254740993,9007199254740993,1]', 1)).toEqual([[0], [1]])
  })

  it('is linear in a text made to be slow', () => {
    const zeros = '0'.repeat(200_000)
    expect(unsafeNumberPath(`[1${zeros}1.${zeros}1e1]`)).toBeUndefined()
    expect(unsafeNumberPaths(`[${'9007199254740993,'.repeat(100_000)}1]`, 0)).toEqual([[0]])
    expect(unsafeNumberPath(`${'['.repeat(100_000)}9007199254740993`)).toContain('$[0][0]')
  })

  it('of a text that does not parse, answers or calls it that', () => {
    const unit = fc.constantFrom('"', '\\', '[', '{', '}', ']', ':', ',', '9', 'e', '-', '.')
    fc.assert(
      fc.property(fc.string({ unit }), (text) => {
        try {
          unsafeNumberPath(`${text}9007199254740993`)
        } catch (error) {
          expect(error).toBeInstanceOf(JsonTextError)
        }
      })
    )
    expect(() => unsafeNumberPath('{"\\q":9007199254740993}')).toThrow(JsonTextError)
    expect(unsafeNumberPath('[:9007199254740993]')).toBe('$[""]')
  })
})

describe('poisonKeyPath', () => {
  const parse = (text: string): JsonValue => JSON.parse(text) as JsonValue

  it.each([
    ['{"__proto__":{}}', '$.__proto__'],
    ['{"a":[1,{"__proto__":1}]}', '$.a[1].__proto__'],
    ['[{"constructor":{"prototype":{}}}]', '$[0].constructor'],
    ['{"a":{"b":1},"c":{"constructor":{"x":1,"prototype":null}}}', '$.c.constructor'],
    ['{"constructor":{"__proto__":1}}', '$.constructor.__proto__']
  ])('%s → %s', (text, path) => {
    expect(poisonKeyPath(parse(text))).toBe(path)
  })

  it.each([
    '{"constructor":"x"}',
    '{"constructor":{}}',
    '{"prototype":{}}',
    '["__proto__"]',
    '{"a":null}',
    '1',
    'null'
  ])('%s is fine', (text) => {
    expect(poisonKeyPath(parse(text))).toBeUndefined()
  })

  it('skips what may hold such keys as data', () => {
    const body = parse('{"name":"t","arguments":{"__proto__":1},"more":{"arguments":{"__proto__":1}}}')
    expect(poisonKeyPath(body)).toBe('$.arguments.__proto__')
    expect(poisonKeyPath(body, (path) => path.length === 1 && path[0] === 'arguments')).toBe(
      '$.more.arguments.__proto__'
    )
    expect(poisonKeyPath(body, () => true)).toBeUndefined()
  })

  it('goes to any depth', () => {
    const text = `${'[{"k":'.repeat(50_000)}{"__proto__":1}${'}]'.repeat(50_000)}`
    expect(poisonKeyPath(parse(text))).toMatch(/__proto__$/)
  })
})
