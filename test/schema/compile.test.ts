import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { compileParameters, compileValue } from '../../server/schema/compile.ts'
import { JsonSchemaError } from '../../server/schema/supported.ts'
import { jsonKey } from '../helpers/json-arbitraries.ts'

function violations(compile: () => unknown): readonly string[] {
  try {
    compile()
  } catch (error) {
    expect(error).toBeInstanceOf(JsonSchemaError)
    return (error as JsonSchemaError).violations
  }
  throw new Error('the spec was accepted')
}

const ofParameters = (spec: unknown): readonly string[] => violations(() => compileParameters(spec as never))
const ofValue = (spec: unknown): readonly string[] => violations(() => compileValue(spec as never))

describe('C020 compilation [core-4.1]', () => {
  it('of parameters [core-4.3.root] [core-4.5.required]', () => {
    expect(
      compileParameters({
        path: { type: 'string', required: true, description: 'Where.' },
        limit: { type: 'number', default: 25 },
        tags: { type: 'array', items: { type: 'string' } }
      })
    ).toStrictEqual({
      type: 'object',
      properties: {
        path: { type: 'string', description: 'Where.' },
        limit: { type: 'number', default: 25 },
        tags: { type: 'array', items: { type: 'string' } }
      },
      required: ['path']
    })
  })

  it('leaves absent what is absent [core-4.5.absent] [core-4.5.required]', () => {
    expect(compileParameters({ a: { type: 'null' } })).toStrictEqual({
      type: 'object',
      properties: { a: { type: 'null' } }
    })
    expect(compileParameters({})).toStrictEqual({ type: 'object', properties: {} })
    expect(compileValue({ type: 'array' })).toStrictEqual({ type: 'array' })
    expect(compileValue({ type: 'object', additionalProperties: true })).toStrictEqual({
      type: 'object',
      additionalProperties: true
    })
  })

  it('of json keeps annotations only [core-4.5.json]', () => {
    expect(compileValue({ type: 'array', items: { type: 'json' } })).toStrictEqual({ type: 'array', items: {} })
    expect(compileValue({ type: 'json', title: 'T', examples: [1] })).toStrictEqual({ title: 'T', examples: [1] })
  })

  it('of nested objects, unions and literals [core-4.5.required]', () => {
    expect(
      compileValue({
        oneOf: [
          { type: 'integer', enum: [1, 2], const: 1 },
          {
            type: 'object',
            properties: {
              z: { type: 'boolean', required: true },
              a: { type: 'json' },
              b: { type: 'null', required: true }
            },
            additionalProperties: false
          }
        ],
        description: 'One of two.'
      })
    ).toStrictEqual({
      oneOf: [
        { type: 'integer', enum: [1, 2], const: 1 },
        {
          type: 'object',
          properties: { z: { type: 'boolean' }, a: {}, b: { type: 'null' } },
          required: ['z', 'b'],
          additionalProperties: false
        }
      ],
      description: 'One of two.'
    })
  })

  it('keeps parameters of any name, in order (4.5) [core-4.5.proto]', () => {
    fc.assert(
      fc.property(fc.uniqueArray(jsonKey), (names) => {
        const map = Object.fromEntries(names.map((name) => [name, { type: 'string', required: true } as const]))
        const schema = compileParameters(map)
        expect(Object.keys(schema['properties']!)).toEqual(Object.keys(map))
        expect(schema['required'] ?? []).toEqual(Object.keys(map))
        expect(Object.getPrototypeOf(schema['properties'])).toBe(Object.prototype)
      })
    )
  })

  it('copies: what the author changes later changes nothing', () => {
    const spec = { type: 'string' as const, enum: ['a', 'b'], default: { list: [1] } }
    const schema = compileValue(spec)
    spec.enum.push('c')
    spec.default.list.push(2)
    expect(schema).toStrictEqual({ type: 'string', enum: ['a', 'b'], default: { list: [1] } })
  })

  it('reads each part of a spec once', () => {
    let reads = 0
    const node = Object.defineProperty({}, 'type', {
      enumerable: true,
      get: () => {
        reads += 1
        return reads === 1 ? 'string' : 'tuple'
      }
    })
    expect(compileParameters({ a: node as never })).toStrictEqual({
      type: 'object',
      properties: { a: { type: 'string' } }
    })
  })

  it('takes one node in two places', () => {
    const shared = { type: 'string' as const }
    expect(compileParameters({ a: shared, b: shared })['properties']).toStrictEqual({ a: shared, b: shared })
  })

  it('to 5,000 levels (4.6) [core-4.6.iterative]', () => {
    let spec: unknown = { type: 'string' }
    for (let level = 0; level < 5000; level += 1) {
      const inner =
        level % 2 === 0
          ? { type: 'array', items: spec }
          : { type: 'object', properties: { k: spec }, additionalProperties: false }
      spec = { oneOf: [{ type: 'null' }, inner] }
    }
    let at: any = compileValue(spec as never)
    let levels = 0
    for (; at.oneOf !== undefined; levels += 1) at = at.oneOf[1].items ?? at.oneOf[1].properties.k
    expect(levels).toBe(5000)
    expect(at).toEqual({ type: 'string' })
  })
})

describe('C021 malformed specs: one violation, where it is', () => {
  const circular: Record<string, unknown> = { type: 'array' }
  circular['items'] = circular
  const hidden = Object.defineProperty({}, 'a', { value: { type: 'string' } })

  it.each([
    [
      'object without additionalProperties [core-4.3.object]',
      { a: { type: 'object' } },
      'parameters.a.additionalProperties'
    ],
    [
      'additionalProperties not a literal [core-4.3.object]',
      { a: { type: 'object', additionalProperties: {} } },
      'parameters.a.additionalProperties'
    ],
    ['required false [core-4.4]', { a: { type: 'string', required: false } }, 'parameters.a.required'],
    ['required undefined', { a: { type: 'string', required: undefined } }, 'parameters.a.required'],
    [
      'required on items [core-4.4]',
      { a: { type: 'array', items: { type: 'string', required: true } } },
      'parameters.a.items.required'
    ],
    [
      'required on a branch [core-4.4]',
      { a: { oneOf: [{ type: 'string' }, { type: 'null', required: true }] } },
      'parameters.a.oneOf[1].required'
    ],
    ['an unknown key [core-4.2]', { a: { type: 'string', pattern: 'x' } }, 'parameters.a.pattern'],
    ['a key of another kind [core-4.2]', { a: { type: 'string', items: {} } }, 'parameters.a.items'],
    ['enum on json [core-4.2]', { a: { type: 'json', enum: [1] } }, 'parameters.a.enum'],
    ['items beside oneOf [core-4.2]', { a: { oneOf: [], items: {} } }, 'parameters.a.items'],
    ['type and oneOf [core-4.1]', { a: { type: 'string', oneOf: [] } }, 'parameters.a.oneOf'],
    ['an unknown type [core-4.1]', { a: { type: 'weird' } }, 'parameters.a.type'],
    ['an undefined type', { a: { type: undefined } }, 'parameters.a.type'],
    ['a list of types', { a: { type: ['string'] } }, 'parameters.a.type'],
    ['an empty node', { a: {} }, 'parameters.a'],
    ['null', { a: null }, 'parameters.a'],
    ['a bare type', { a: 'string' }, 'parameters.a'],
    ['enum as a string', { a: { type: 'string', enum: 'ab' } }, 'parameters.a.enum'],
    ['a sparse enum [core-4.6.arrays]', { a: { type: 'string', enum: Array(2) } }, 'parameters.a.enum'],
    ['oneOf as a record', { a: { oneOf: {} } }, 'parameters.a.oneOf'],
    ['a decorated oneOf [core-4.6.arrays]', { a: { oneOf: Object.assign([], { x: 1 }) } }, 'parameters.a.oneOf'],
    [
      'properties as an array',
      { a: { type: 'object', properties: [], additionalProperties: true } },
      'parameters.a.properties'
    ],
    [
      'a hidden key [core-4.6.records]',
      { a: { type: 'object', properties: hidden, additionalProperties: true } },
      'parameters.a.properties'
    ],
    ['a symbol key [core-4.6.records]', { a: { type: 'string', [Symbol('s')]: 1 } }, 'parameters.a'],
    [
      'a class instance [core-4.6.records]',
      {
        a: new (class Spec {
          type = 'string'
        })()
      },
      'parameters.a'
    ],
    ['a cycle [core-4.6.cycles]', { a: circular }, 'parameters.a.items']
  ])('%s', (_name, spec, path) => {
    const [first, ...rest] = ofParameters(spec)
    expect(first).toContain(`"${path}"`)
    expect(rest).toEqual([])
  })

  it.each([null, undefined, [], 'x', new Map()])('%s is no parameter map', (spec) => {
    expect(ofParameters(spec)).toHaveLength(1)
    expect(ofParameters(spec)[0]).toContain('"parameters"')
  })

  it('paths of a value spec begin with "schema", where required is no key of the root [core-4.4] [core-4.7.first]', () => {
    expect(ofValue({ type: 'string', required: true })[0]).toContain('"schema.required"')
    expect(ofValue({})[0]).toContain('"schema"')
    expect(ofValue(circular)[0]).toContain('"schema.items"')
  })

  it('a cycle through a property map is found [core-4.6.cycles]', () => {
    const map: Record<string, unknown> = {}
    map['self'] = { type: 'object', properties: map, additionalProperties: true }
    expect(ofParameters(map)[0]).toContain('"parameters.self.properties"')
  })

  it('stops at the first [core-4.7.first]', () => {
    expect(ofParameters({ a: {}, b: {} })).toHaveLength(1)
  })
})

describe('the second phase (4.7) reports all, rooted at schema [core-4.7.second]', () => {
  it.each([
    [{ type: 'string', enum: [] }, 'enum'],
    [{ type: 'number', enum: ['1'] }, 'enum[0]'],
    [{ type: 'string', const: 1 }, 'const'],
    [{ type: 'string', enum: ['a'], const: 'b' }, 'const'],
    [{ oneOf: [{ type: 'string' }] }, 'oneOf'],
    [{ type: 'string', default: undefined }, 'default'],
    [{ type: 'string', default: NaN }, 'default'],
    [{ type: 'json', examples: [undefined] }, 'examples'],
    [{ type: 'string', description: 5 }, 'description']
  ])('%j', (spec, place) => {
    expect(ofParameters({ a: spec, b: spec })).toEqual([
      expect.stringContaining(`"schema.properties.a.${place}"`),
      expect.stringContaining(`"schema.properties.b.${place}"`)
    ])
    expect(ofValue(spec)).toEqual([expect.stringContaining(`"schema.${place}"`)])
  })

  it('an annotation that throws when read is lossy', () => {
    const hostile = {
      get a(): never {
        throw new Error('from the getter')
      }
    }
    expect(ofValue({ type: 'json', default: hostile })).toHaveLength(1)
  })
})
