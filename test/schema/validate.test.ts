import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isLosslessJson, type JsonValue } from '../../server/json/lossless.ts'
import { compileParameters, compileValue } from '../../server/schema/compile.ts'
import { assertSupportedSchema } from '../../server/schema/supported.ts'
import type { JsonSchema } from '../../server/schema/spec.ts'
import { validateValue } from '../../server/schema/validate.ts'
import { jsonValue, nest } from '../helpers/json-arbitraries.ts'

const of = (schema: JsonSchema, value: unknown): string[] => validateValue(schema, value, 'value')
const places = (schema: JsonSchema, value: unknown, root = 'value'): string[] =>
  validateValue(schema, value, root).map((text) => text.slice(1, text.indexOf('" ')))

/** core.md §3.12–3.18 by plain recursion, yes or no. */
function accepts(schema: JsonSchema, value: JsonValue): boolean {
  const { oneOf, type, properties = {}, required = [], additionalProperties, items } = schema as any
  if (oneOf !== undefined) return oneOf.filter((branch: JsonSchema) => accepts(branch, value)).length === 1
  if (type === undefined) return true
  if (type === 'array')
    return Array.isArray(value) && (items === undefined || value.every((item) => accepts(items, item)))
  if (type === 'object') {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
    if (!required.every((name: string) => Object.hasOwn(value, name))) return false
    return Object.entries(value).every(([name, item]) =>
      Object.hasOwn(properties, name) ? accepts(properties[name], item) : additionalProperties !== false
    )
  }
  const kind = value === null ? 'null' : typeof value
  if (type === 'integer' ? !Number.isInteger(value) : kind !== type) return false
  return (
    (!('enum' in schema) || (schema['enum'] as unknown[]).includes(value)) &&
    (!('const' in schema) || schema['const'] === value)
  )
}

const name = fc.constantFrom('a', 'b', '__proto__', 'constructor', 'toString')
const { schema: anySchema } = fc.letrec<{ schema: JsonSchema }>((tie) => ({
  schema: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom<JsonSchema>(
      {},
      { type: 'string' },
      { type: 'number' },
      { type: 'integer' },
      { type: 'boolean' },
      { type: 'null' },
      { type: 'integer', enum: [0, 1] },
      { type: 'string', const: 'x' },
      { type: 'array' },
      { type: 'object' }
    ),
    tie('schema').map((items) => ({ type: 'array', items })),
    fc.array(tie('schema'), { minLength: 2, maxLength: 3 }).map((oneOf) => ({ oneOf })),
    fc
      .tuple(
        fc.uniqueArray(fc.tuple(name, tie('schema'), fc.boolean()), { selector: ([key]) => key }),
        fc.constantFrom(true, false, undefined)
      )
      .map(([members, additionalProperties]) => ({
        type: 'object',
        properties: Object.fromEntries(members.map(([key, member]) => [key, member])),
        required: members.filter(([, , required]) => required).map(([key]) => key),
        ...(additionalProperties === undefined ? {} : { additionalProperties })
      }))
  )
}))
const { value: likelyValue } = fc.letrec<{ value: JsonValue }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom<JsonValue>(0, 1, 1.5, 'x', 'y', true, null),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.array(fc.tuple(name, tie('value')), { maxLength: 4 }).map((entries) => Object.fromEntries(entries))
  )
}))

describe('validateValue against a naive validator', () => {
  it('agrees on every schema and value', () => {
    fc.assert(
      fc.property(anySchema, fc.oneof(likelyValue, jsonValue), (schema, value) => {
        assertSupportedSchema(schema)
        expect(of(schema, value).length === 0).toBe(accepts(schema, value))
      }),
      { numRuns: 2000 }
    )
  })

  it('accepts nothing that is not lossless JSON, whatever the schema', () => {
    const lossy = fc.constantFrom<unknown>(
      undefined,
      NaN,
      -0,
      new Date(0),
      () => 1,
      1n,
      [undefined],
      { a: undefined },
      Array(1)
    )
    fc.assert(
      fc.property(
        anySchema,
        lossy,
        fc.integer({ min: 0, max: 3 }),
        fc.constantFrom(undefined, 'a', 'z'),
        (schema, leaf, depth, key) => {
          const value = nest(depth, leaf, key)
          expect(isLosslessJson(value)).toBe(false)
          expect(of(schema, value)).not.toEqual([])
        }
      ),
      { numRuns: 1000 }
    )
  })
})

describe('C016 order', () => {
  const schema = compileParameters({
    file: { type: 'string', required: true },
    nested: {
      type: 'object',
      properties: { line: { type: 'integer', required: true } },
      additionalProperties: false,
      required: true
    }
  })

  it('required first, then declared members in their order, then undeclared keys [core-3.14.order]', () => {
    expect(places(schema, { file: 1, nested: {} })).toEqual(['value.file', 'value.nested.line'])
    expect(places(schema, { nested: { line: 'x', extra: 1, more: 2 } })).toEqual([
      'value.file',
      'value.nested.line',
      'value.nested.extra',
      'value.nested.more'
    ])
    expect(places(schema, { file: 'f', nested: { line: 1 }, extra: [1] })).toEqual([])
  })

  it('a required member present with undefined is missing; an optional one is lossy [core-3.14.undefined]', () => {
    expect(of(schema, { file: undefined, nested: { line: 1 } })).toEqual(['"value.file" is required'])
    expect(places({ type: 'object', properties: { a: { type: 'string' } } }, { a: undefined })).toEqual(['value'])
    expect(of({ type: 'object', properties: { a: {} }, required: ['a'] }, Object.create(null))).toHaveLength(1)
  })

  it('inherited members do not count [core-3.14.own]', () => {
    expect(places({ type: 'object', properties: { toString: {} }, required: ['toString'] }, {})).toEqual([
      'value.toString'
    ])
  })

  it('only a plain object is an object [core-3.14.plain]', () => {
    for (const odd of [null, [], 'x', new Date(0), new Map()]) {
      expect(of(schema, odd)).toEqual(['"value" must be an object'])
    }
  })

  it('losslessness is tested when all else is clean, once [core-3.14.lossless]', () => {
    const open: JsonSchema = { type: 'object', properties: { a: { type: 'string' } } }
    expect(places(open, { a: 'x', b: undefined, c: NaN })).toEqual(['value'])
    expect(places(open, { a: 1, b: undefined })).toEqual(['value.a'])
    expect(places(open, { a: 'x', [Symbol('s')]: 1 })).toEqual(['value'])
    expect(places(open, Object.defineProperty({ a: 'x' }, 'h', { value: 1 }))).toEqual(['value'])
    expect(places({ type: 'object', additionalProperties: false }, { [Symbol('s')]: 1 })).toEqual([
      'value["Symbol(s)"]'
    ])
    const ring: Record<string, unknown> = { a: 'x' }
    ring['ring'] = ring
    expect(places(open, ring)).toEqual(['value'])
  })

  it('arrays: each item, holes skipped, then density [core-3.15]', () => {
    const integers: JsonSchema = { type: 'array', items: { type: 'integer' } }
    expect(places(integers, [1, 1.5])).toEqual(['value[1]'])
    expect(of(integers, 'x')).toEqual(['"value" must be an array'])
    expect(places(integers, [1, , 2])).toEqual(['value']) // oxlint-disable-line no-sparse-arrays
    expect(places(integers, [1, , 'x'])).toEqual(['value[2]']) // oxlint-disable-line no-sparse-arrays
    expect(places(integers, Array(4_294_967_295))).toEqual(['value'])
    expect(places(integers, Object.assign([1], { note: 'x' }))).toEqual(['value'])
    expect(places({ type: 'array' }, [1, undefined])).toEqual(['value'])
    expect(of({ type: 'array' }, [{ a: [] }])).toEqual([])
  })
})

describe('C017 exactly one branch', () => {
  const union: JsonSchema = { oneOf: [{ type: 'number' }, { type: 'integer' }] }

  it('says how many matched [core-3.17.exactly-one]', () => {
    expect(of(union, 1)).toEqual([expect.stringMatching(/"value".*\b2\b/)])
    expect(of(union, 1.5)).toEqual([])
    expect(of(union, null)).toEqual([expect.stringMatching(/"value".*\b0\b/)])
  })

  it('keeps the details of its branches to itself [core-3.17.no-details]', () => {
    const schema = compileValue({
      oneOf: [
        { type: 'array', items: { type: 'string' } },
        { type: 'object', properties: { a: { type: 'null' } }, additionalProperties: false }
      ]
    })
    expect(places(schema, [1, 2, 3])).toEqual(['value'])
    expect(places(schema, { a: 1, b: 2, c: 3 })).toEqual(['value'])
    expect(places(schema, { b: 2, c: 3 })).toEqual(['value'])
    expect(of(schema, { a: null })).toEqual([])
  })
})

describe('scalars (3.16)', () => {
  it('a number that JSON does not have is told from what is no number [core-3.16.number]', () => {
    const [none] = of({ type: 'number' }, '1')
    for (const odd of [NaN, Infinity, -0]) expect(of({ type: 'number' }, odd)[0]).not.toBe(none)
    expect(of({ type: 'number' }, NaN)).toEqual(of({ type: 'number' }, -0))
  })

  it('an integer has one message for all that is wrong [core-3.16.integer]', () => {
    const messages = [1.5, -0, '1', null, NaN].map((value) => of({ type: 'integer' }, value))
    expect(new Set(messages.flat()).size).toBe(1)
    expect(messages.every((list) => list.length === 1)).toBe(true)
  })

  it('type first, then enum with the allowed list as JSON, then const [core-3.16.order]', () => {
    const schema: JsonSchema = { type: 'string', enum: ['a', 'b'], const: 'a' }
    expect(of(schema, 1)).toEqual(['"value" must be a string'])
    expect(of(schema, 'c')).toEqual(['"value" must be one of ["a","b"]'])
    expect(of(schema, 'b')).toEqual(['"value" must be "a"'])
    expect(of(schema, 'a')).toEqual([])
    expect(of({ type: 'null', const: null }, null)).toEqual([])
    expect(of({ type: 'null' }, 0)).toEqual(['"value" must be null'])
    expect(of({ type: 'boolean', const: false }, true)).toHaveLength(1)
  })
})

describe('C023 paths of arguments', () => {
  const schema = compileParameters({
    config: {
      type: 'object',
      properties: { host: { type: 'string', required: true }, port: { type: 'integer' } },
      additionalProperties: true
    },
    bag: { type: 'object', additionalProperties: true },
    servers: {
      type: 'array',
      items: { type: 'object', properties: { host: { type: 'string', required: true } }, additionalProperties: true }
    },
    tags: { type: 'array', items: { type: 'string' } }
  })

  it('have no leading dot [core-3.13.labels]', () => {
    expect(places(schema, { config: { port: 9 }, bag: 5 }, '')).toEqual(['config.host', 'bag'])
    expect(places(schema, { servers: [{ host: 'a' }, {}] }, '')).toEqual(['servers[1].host'])
    expect(places(schema, { tags: ['a', 2] }, '')).toEqual(['tags[1]'])
  })

  it('call the root "arguments" [core-3.13.root]', () => {
    expect(places(schema, 'x', '')).toEqual(['arguments'])
  })
})

describe('C025 openness', () => {
  it('the implicit root is open, a closed object is closed', () => {
    const schema = compileParameters({
      closed: { type: 'object', properties: { a: { type: 'json' } }, additionalProperties: false },
      empty: { type: 'object', additionalProperties: false }
    })
    expect(places(schema, { extra: 1 }, '')).toEqual([])
    expect(places(schema, { closed: { a: 1, b: 2 } }, '')).toEqual(['closed.b'])
    expect(places(schema, { empty: {} }, '')).toEqual([])
    expect(places(schema, { empty: { a: 1 } }, '')).toEqual(['empty.a'])
  })

  it('C019 a default is neither applied nor checked [core-3.18]', () => {
    const schema = compileParameters({ a: { type: 'string', default: 5 } })
    const value = {}
    expect(of(schema, value)).toEqual([])
    expect(value).toEqual({})
  })
})

describe('hostile values (3.12)', () => {
  const throwing = {
    get a(): never {
      throw new Error('from the getter')
    }
  }
  const revoked = (): object => {
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    return proxy
  }

  it('become one violation at the nearest container [core-3.12.total]', () => {
    const schema: JsonSchema = {
      type: 'object',
      properties: { o: { type: 'object', properties: { a: { type: 'string' } } } }
    }
    expect(of(schema, { o: throwing })).toEqual(['"value.o" is not a lossless JSON value'])
    expect(places(schema, { o: revoked() })).toEqual(['value.o'])
    expect(places(schema, { other: throwing })).toEqual(['value'])
    expect(places({ type: 'array', items: { type: 'array' } }, [[1], revoked()])).toEqual(['value[1]'])
    expect(places({ type: 'array', items: {} }, [throwing])).toEqual(['value[0]'])
    expect(places({}, throwing)).toEqual(['value'])
    expect(places({ oneOf: [{ type: 'object' }, { type: 'string' }] }, throwing)).toEqual(['value'])
  })

  it('an array whose item throws', () => {
    const list = Object.defineProperty([1], 0, {
      enumerable: true,
      get: () => {
        throw new Error('from the getter')
      }
    })
    expect(places({ type: 'array', items: { type: 'integer' } }, list)).toEqual(['value'])
  })

  it('a list of violations ends, and says so', () => {
    const many = Array.from({ length: 100_000 }, () => 'x')
    const list = of({ type: 'array', items: { type: 'integer' } }, many)
    expect(list).toHaveLength(101)
    expect(list[100]).toContain('100')
    expect(of({ type: 'object', additionalProperties: false }, Object.assign({}, many))).toHaveLength(101)
    expect(
      of(
        { type: 'object', properties: { a: { type: 'array', items: { type: 'null' } }, b: { type: 'null' } } },
        { a: many, b: 1 }
      )
    ).toHaveLength(101)
  })

  it('of 99 violations each is listed', () => {
    expect(
      of(
        { type: 'array', items: { type: 'null' } },
        Array.from({ length: 99 }, () => 1)
      )
    ).toHaveLength(99)
  })
})

describe('depth', () => {
  it('5,000 levels of schema and value, in a time that is not quadratic [core-3.12.iterative]', () => {
    let schema: JsonSchema = { type: 'string' }
    let value: unknown = 'leaf'
    for (let level = 0; level < 5000; level += 1) {
      schema = {
        oneOf: [
          { type: 'null' },
          { type: 'object', properties: { k: { type: 'array', items: schema } }, required: ['k'] }
        ]
      }
      value = { k: [value] }
    }
    expect(of(schema, value)).toEqual([])
    expect(of(schema, JSON.parse(JSON.stringify(nest(2000, {}, 'k'))))).toHaveLength(1)
  })

  it('a value is not held to any depth', () => {
    expect(of({ type: 'object' }, nest(100_000, 1, 'k'))).toEqual([])
    expect(of({}, nest(100_000, undefined))).toHaveLength(1)
  })
})
