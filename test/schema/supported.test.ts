import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import { CodedError } from '../../server/errors.ts'
import { assertSupportedSchema, JsonSchemaError } from '../../server/schema/supported.ts'
import { nest } from '../helpers/json-arbitraries.ts'

function violations(schema: unknown, options?: { objectRoot?: boolean }): readonly string[] {
  try {
    assertSupportedSchema(schema, options)
    return []
  } catch (error) {
    expect(error).toBeInstanceOf(JsonSchemaError)
    return (error as JsonSchemaError).violations
  }
}

/** The quoted path of each violation. */
const places = (schema: unknown): string[] => violations(schema).map((text) => text.slice(1, text.indexOf('" ')))

const leaf = { type: 'string' }

describe('keywords', () => {
  it.each(['anyOf', 'allOf', 'not', 'pattern', 'minimum', 'maxLength', '$ref', 'format', '__proto__', 'toString'])(
    'C009 %s is refused [core-3.1.keywords]',
    (keyword) => {
      const schema = JSON.parse(`{"type":"object","${keyword}":[]}`) as unknown
      expect(places(schema)).toEqual([`schema.${keyword}`])
    }
  )

  it('C009 the error is coded, and its message holds every violation [core-3.9.error] [core-30.json-schema]', () => {
    try {
      assertSupportedSchema({ type: 'object', not: {}, allOf: [] })
      expect.unreachable()
    } catch (error) {
      expect(error).toBeInstanceOf(CodedError)
      const { name, code, message, violations: list } = error as JsonSchemaError
      expect({ name, code, count: list.length }).toEqual({
        name: 'JsonSchemaError',
        code: 'UNSUPPORTED_SCHEMA',
        count: 2
      })
      expect(message.endsWith(list.join('; '))).toBe(true)
    }
  })

  it('C010 types: one of seven, never a list; a schema is a record [core-3.2]', () => {
    const [unknown] = violations({ type: 'tuple' })
    const [list] = violations({ type: ['string', 'null'] })
    expect(unknown).toContain('"schema.type"')
    expect(list).toContain('"schema.type"')
    expect(list).not.toBe(unknown)
    for (const odd of [null, [], 'x', 1, undefined, new Date(0), Object.create({ type: 'string' })]) {
      expect(violations(odd)).toEqual(['"schema" is not a schema object'])
    }
    for (const type of ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null']) {
      expect(violations({ type })).toEqual([])
    }
    expect(violations({})).toEqual([])
    expect(violations(Object.assign(Object.create(null), leaf))).toEqual([])
    expect(violations(runInNewContext('({ type: "array", items: {} })'))).toEqual([])
  })

  it('a record with hidden or symbol keys is no schema (3.1) [core-3.1.record]', () => {
    expect(places({ type: 'array', items: Object.defineProperty({}, 'type', { value: 'string' }) })).toEqual([
      'schema.items'
    ])
    expect(places({ ...leaf, [Symbol('s')]: 1 })).toEqual(['schema'])
  })

  it('own properties only (3.11) [core-3.11]', () => {
    const prototype: object = Object.prototype
    Object.defineProperty(prototype, 'oneOf', { value: [], configurable: true, enumerable: false })
    try {
      expect(violations({ type: 'object', properties: { a: {} }, required: ['a'] })).toEqual([])
    } finally {
      Reflect.deleteProperty(prototype, 'oneOf')
    }
  })

  it('without a type no constraint may stand (3.3) [core-3.3]', () => {
    expect(places({ description: 'any', properties: {}, required: [], additionalProperties: true })).toEqual([
      'schema.properties',
      'schema.required',
      'schema.additionalProperties'
    ])
    expect(places({ const: 1, items: {}, enum: [1] })).toEqual(['schema.items', 'schema.enum', 'schema.const'])
  })

  it('a keyword that is there but undefined is there', () => {
    expect(places({ type: undefined })).toEqual(['schema.type'])
    expect(places({ ...leaf, const: undefined })).toEqual(['schema.const'])
    expect(places({ ...leaf, enum: undefined })).toEqual(['schema.enum'])
  })

  it('placement (3.5) [core-3.5]', () => {
    expect(places({ ...leaf, items: {}, required: [] })).toEqual(['schema.required', 'schema.items'])
    expect(places({ type: 'object', items: {}, const: {} })).toEqual(['schema.items', 'schema.const'])
    expect(places({ type: 'array', enum: [], additionalProperties: 1, properties: 1 })).toEqual([
      'schema.properties',
      'schema.additionalProperties',
      'schema.enum'
    ])
  })
})

describe('C011 oneOf', () => {
  it('needs a dense array of two branches [core-3.4.branches]', () => {
    for (const oneOf of [[], [leaf], 'x', {}, Array(2), Object.assign([leaf, leaf], { x: 1 })]) {
      expect(places({ oneOf })).toEqual(['schema.oneOf'])
    }
    expect(violations({ oneOf: [leaf, { type: 'null' }] })).toEqual([])
  })

  it('beside a type is one violation, and nothing in it is looked at [core-3.4.beside-type]', () => {
    expect(places({ type: 'string', oneOf: [{ not: 1 }], items: 1 })).toEqual(['schema'])
  })

  it('reports other constraints after its branches [core-3.4.beside-constraint]', () => {
    expect(places({ items: {}, required: [], oneOf: [leaf, { type: 'tuple' }] })).toEqual([
      'schema.oneOf[1].type',
      'schema.required',
      'schema.items'
    ])
  })

  it('descends into a single branch as well', () => {
    expect(places({ oneOf: [{ type: 'tuple' }] })).toEqual(['schema.oneOf', 'schema.oneOf[0].type'])
  })
})

describe('C013 literals [core-3.6.enum] [core-3.6.const]', () => {
  it.each([
    [{ type: 'number', enum: ['1'] }, ['schema.enum[0]']],
    [{ type: 'number', enum: [1, NaN, -0, Infinity] }, ['schema.enum[1]', 'schema.enum[2]', 'schema.enum[3]']],
    [{ type: 'integer', enum: [1.5] }, ['schema.enum[0]']],
    [{ type: 'integer', const: -0 }, ['schema.const']],
    [{ type: 'number', const: -0 }, ['schema.const']],
    [{ type: 'boolean', const: 1 }, ['schema.const']],
    [{ type: 'string', enum: [] }, ['schema.enum']],
    [{ type: 'string', enum: 'ab' }, ['schema.enum']],
    [{ type: 'string', enum: ['a', ,] }, ['schema.enum']], // oxlint-disable-line no-sparse-arrays
    [{ type: 'string', enum: ['a'], const: 'b' }, ['schema.const']],
    [{ type: 'string', enum: [1], const: 'b' }, ['schema.enum[0]']],
    [{ type: 'null', enum: [null, undefined] }, ['schema.enum[1]']]
  ])('%j is refused', (schema, where) => {
    expect(places(schema)).toEqual(where)
  })

  it.each([
    { type: 'null', enum: [null], const: null },
    { type: 'number', enum: [1, 1.5], const: 1.5 },
    { type: 'integer', enum: [0, -3] },
    { type: 'boolean', const: false },
    { type: 'string', const: '' }
  ])('%j is accepted', (schema) => {
    expect(violations(schema)).toEqual([])
  })
})

describe('objects (3.7)', () => {
  it('properties are a record, required names its own keys [core-3.7.required]', () => {
    expect(places({ type: 'object', properties: [] })).toEqual(['schema.properties'])
    expect(places({ type: 'object', properties: null, required: ['a'] })).toEqual(['schema.properties'])
    expect(places({ type: 'object', required: 'a' })).toEqual(['schema.required'])
    expect(places({ type: 'object', required: ['a'] })).toEqual(['schema.required[0]'])
    expect(places({ type: 'object', properties: { a: {} }, required: ['a', 'toString', 1] })).toEqual([
      'schema.required[1]',
      'schema.required[2]'
    ])
    const proto = JSON.parse('{"type":"object","properties":{"__proto__":{}},"required":["__proto__"]}') as unknown
    expect(violations(proto)).toEqual([])
  })

  it('additionalProperties is a boolean [core-3.7.additional]', () => {
    expect(places({ type: 'object', additionalProperties: leaf })).toEqual(['schema.additionalProperties'])
    expect(violations({ type: 'object', additionalProperties: false })).toEqual([])
  })

  it('an object root can be demanded (3.10) [core-3.10]', () => {
    expect(violations({ type: 'object' }, { objectRoot: true })).toEqual([])
    expect(violations(leaf, { objectRoot: true })).toHaveLength(1)
    expect(violations({}, { objectRoot: true })).toHaveLength(1)
    expect(violations({ oneOf: [leaf, {}] }, { objectRoot: true })).toHaveLength(1)
    expect(violations(null, { objectRoot: true })).toEqual(['"schema" is not a schema object'])
  })
})

describe('C019 annotations', () => {
  it('are strings and lossless JSON [core-3.1.annotations]', () => {
    expect(places({ description: 1, title: null, default: NaN, examples: [undefined] })).toEqual([
      'schema.default',
      'schema.examples',
      'schema.description',
      'schema.title'
    ])
    expect(places({ ...leaf, default: undefined })).toEqual(['schema.default'])
  })

  it('a default is not held to the type [core-3.18]', () => {
    expect(violations({ ...leaf, default: 5, examples: [{ a: 1 }], title: '', description: 'd' })).toEqual([])
  })
})

describe('C015 the whole schema is walked', () => {
  it('all violations are collected, in order [core-3.9.all]', () => {
    const schema = {
      type: 'object',
      nope: 1,
      properties: {
        a: { type: 'tuple' },
        b: { type: 'string', pattern: 'x' },
        'c d': { type: 'array', items: { not: 1 } }
      }
    }
    expect(places(schema).slice(0, 3)).toEqual([
      'schema.nope',
      'schema.properties.a.type',
      'schema.properties.b.pattern'
    ])
    expect(violations(schema)[3]).toContain('schema.properties["c d"].items.not')
    expect(violations(schema)).toHaveLength(4)
  })

  it('a cycle is one violation; a shared node is none [core-3.8]', () => {
    const self: Record<string, unknown> = { type: 'object' }
    self['properties'] = { self, other: leaf, again: { type: 'array', items: leaf } }
    expect(violations(self)).toEqual(['"schema.properties.self" is circular'])
    const union: Record<string, unknown> = {}
    union['oneOf'] = [leaf, { type: 'array', items: union }]
    expect(violations(union)).toEqual(['"schema.oneOf[1].items" is circular'])
  })

  it('to any depth', () => {
    let schema: unknown = { type: 'tuple' }
    for (let level = 0; level < 5000; level += 1) schema = { oneOf: [leaf, { type: 'array', items: schema }] }
    expect(violations(schema)).toHaveLength(1)
    expect(violations({ default: nest(5000, 1) })).toEqual([])
  })
})
