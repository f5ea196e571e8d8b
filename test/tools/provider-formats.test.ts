import { describe, expect, it } from 'vitest'
import type { JsonObject, JsonValue } from '../../server/json/lossless.ts'
import { formatSchemas, providerFormats, type ProviderFormat } from '../../server/tools/provider-formats.ts'

const schemaOf = (properties: JsonObject, more: JsonObject = {}) => ({
  name: 'probe',
  description: 'probes',
  parameters: { type: 'object', properties, ...more }
})

/** The parameters in a format, and the notes as `path: note`. */
function lowered(format: ProviderFormat, properties: JsonObject, more: JsonObject = {}) {
  const { schemas, notes } = formatSchemas([schemaOf(properties, more)], format)
  const [sent] = schemas as [Record<string, JsonObject>]
  const holder = (sent.function ?? sent) as Record<string, JsonValue>
  const parameters = (holder.parameters ?? holder.inputSchema ?? holder.input_schema) as JsonObject
  return {
    parameters,
    properties: parameters.properties as Record<string, JsonObject>,
    notes: notes.map(({ path, note }) => `${path}: ${note}`)
  }
}

const plain = schemaOf({ a: { type: 'string', description: 'an a' }, b: { type: 'integer' } }, { required: ['a'] })

describe('shapes', () => {
  it.each<[ProviderFormat, JsonObject]>([
    ['native', { name: 'probe', description: 'probes', parameters: plain.parameters }],
    ['mcp', { name: 'probe', description: 'probes', inputSchema: plain.parameters }],
    ['openai', { type: 'function', function: { name: 'probe', description: 'probes', parameters: plain.parameters } }],
    [
      'openai-responses',
      { type: 'function', name: 'probe', description: 'probes', parameters: plain.parameters, strict: false }
    ],
    ['anthropic', { name: 'probe', description: 'probes', input_schema: plain.parameters }],
    ['gemini', { name: 'probe', description: 'probes', parameters: plain.parameters }]
  ])('%s wraps a plain schema as it stands', (format, expected) => {
    expect(formatSchemas([plain], format)).toEqual({ schemas: [expected], notes: [] })
  })

  it('leaves its input alone, frozen as registered schemas are', () => {
    const given = Object.freeze(schemaOf({ a: Object.freeze({ oneOf: [{ type: 'string' }, { type: 'null' }] }) }))
    const before = JSON.stringify(given)
    for (const format of providerFormats) formatSchemas([given], format)
    expect(JSON.stringify(given)).toBe(before)
  })
})

describe('names', () => {
  it('are sent otherwise only where the provider refuses them, and noted for the way back', () => {
    const tools = ['3d', '-x', 'ok'].map((name) => ({ ...plain, name }))
    expect(formatSchemas(tools, 'openai').notes).toEqual([])
    const { schemas, notes } = formatSchemas(tools, 'gemini')
    expect(schemas.map(({ name }) => name)).toEqual([
      expect.stringMatching(/^_3d_[0-9a-f]{12}$/),
      expect.stringMatching(/^_-x_/),
      'ok'
    ])
    expect(notes).toEqual([
      { tool: '3d', path: 'name', note: `sent as "${schemas[0]?.name as string}"` },
      { tool: '-x', path: 'name', note: `sent as "${schemas[1]?.name as string}"` }
    ])
  })

  it('stay distinct and short enough when they are long or odd', () => {
    const long = 'n'.repeat(80)
    const names = [`${long}a`, `${long}b`, 'é.1', 'é_1'].map((name) => ({ ...plain, name }))
    const sent = formatSchemas(names, 'anthropic').schemas.map(({ name }) => name as string)
    expect(new Set(sent).size).toBe(4)
    for (const name of sent) expect(name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/)
  })
})

describe('openai', () => {
  it('tells combinators at the root in the description, so that the request is not refused', () => {
    const { parameters, notes } = lowered(
      'openai',
      { a: {}, b: {} },
      { anyOf: [{ required: ['a'] }, { required: ['b'] }] }
    )
    expect(parameters).toEqual({
      type: 'object',
      properties: { a: {}, b: {} },
      description: '(anyOf: [{"required":["a"]},{"required":["b"]}])'
    })
    expect(notes).toEqual(['parameters: anyOf is told in the description'])
  })

  it('sends oneOf as anyOf below the root, at any depth, and tells allOf', () => {
    const { properties, notes } = lowered('openai-responses', {
      list: {
        type: 'array',
        items: { oneOf: [{ type: 'string' }, { type: 'object', properties: { 'a.b': { oneOf: [{}, {}] } } }] }
      },
      both: { description: 'Both.', allOf: [{ type: 'string' }] }
    })
    expect(properties).toEqual({
      list: {
        type: 'array',
        items: { anyOf: [{ type: 'string' }, { type: 'object', properties: { 'a.b': { anyOf: [{}, {}] } } }] }
      },
      both: { description: 'Both. (allOf: [{"type":"string"}])' }
    })
    expect([...notes].sort()).toEqual([
      'parameters.properties.both: allOf is told in the description',
      'parameters.properties.list.items.anyOf[1].properties.a.b: oneOf is sent as anyOf',
      'parameters.properties.list.items: oneOf is sent as anyOf'
    ])
  })

  it('tells oneOf where anyOf stands already', () => {
    const { properties } = lowered('openai', { a: { oneOf: [{}, {}], anyOf: [{}] } })
    expect(properties.a).toEqual({ anyOf: [{}], description: '(oneOf: [{},{}])' })
  })

  it('gives what is demanded of arrays and of an object without properties', () => {
    const { schemas } = formatSchemas([{ name: 'x', description: '', parameters: { type: 'object' } }], 'openai')
    expect(schemas[0]).toMatchObject({ function: { parameters: { type: 'object', properties: {} } } })
    expect(
      lowered('openai', { a: { type: 'array' }, b: { type: 'array', prefixItems: [{ allOf: [] }] } }).properties
    ).toEqual({
      a: { type: 'array', items: {} },
      b: { type: 'array', prefixItems: [{ description: '(allOf: [])' }] }
    })
  })

  it('sends the tuples of draft-07 as those of 2020-12, and tells them where there are none', () => {
    const pair = { type: 'array', items: [{ type: 'string' }, {}], additionalItems: false }
    const sent = { type: 'array', prefixItems: [{ type: 'string' }, {}], items: false }
    const open = { type: 'array', items: [{ type: 'string' }] }
    for (const format of ['openai', 'anthropic'] as const) {
      const { properties, notes } = lowered(format, { pair })
      expect([format, properties, notes]).toEqual([
        format,
        { pair: sent },
        ['parameters.properties.pair: a list under items is sent as prefixItems']
      ])
    }
    expect(lowered('gemini', { open }).properties).toEqual({
      open: { type: 'array', items: {}, description: '(prefixItems: [{"type":"string"}])' }
    })
  })

  it('keeps references and lowers what they point to', () => {
    const { parameters } = lowered('openai', { a: { $ref: '#/$defs/x' } }, { $defs: { x: { oneOf: [{}, {}] } } })
    expect(parameters).toMatchObject({ properties: { a: { $ref: '#/$defs/x' } }, $defs: { x: { anyOf: [{}, {}] } } })
  })

  it('leaves data alone: defaults, examples, enums', () => {
    const data = { default: { oneOf: 1 }, examples: [{ allOf: 1 }], enum: [{ not: 1 }] }
    expect(lowered('openai', { a: data }).properties.a).toEqual(data)
  })
})

describe('anthropic', () => {
  it('keeps what it takes below the root', () => {
    const value = { oneOf: [{ type: 'string' }, { allOf: [{ minLength: 1 }] }], pattern: 'x' }
    expect(lowered('anthropic', { a: value })).toMatchObject({ properties: { a: value }, notes: [] })
  })

  it('tells properties whose names it refuses, and leaves the object open for them', () => {
    const { parameters, notes } = lowered(
      'anthropic',
      { 'a b': { type: 'string' }, ok: {}, 'c/d': {} },
      { required: ['a b', 'ok'], additionalProperties: false }
    )
    expect(parameters).toEqual({
      type: 'object',
      properties: { ok: {} },
      required: ['ok'],
      description: '(required property "a b": {"type":"string"}; property "c/d": {})'
    })
    expect(notes).toEqual([
      'parameters: property "a b" is told in the description',
      'parameters: property "c/d" is told in the description'
    ])
  })

  it('writes references out; a recursive one, a foreign one and a dangling one are told', () => {
    const tree = { type: 'object', properties: { next: { $ref: '#/$defs/tree' } } }
    const { parameters } = lowered(
      'anthropic',
      {
        tree: { $ref: '#/$defs/tree', description: 'A tree.' },
        slash: { $ref: '#/$defs/a~1b' },
        foreign: { $ref: 'https://example.com/x' },
        dangling: { $ref: '#/$defs/constructor' },
        scalar: { $ref: '#/$defs/tree/type' }
      },
      { $defs: { tree: { ...tree, description: 'Its own text gives way.' }, 'a/b': { type: 'null' } } }
    )
    expect(parameters).toEqual({
      type: 'object',
      properties: {
        tree: {
          type: 'object',
          description: 'A tree.',
          properties: { next: { description: '($ref: "#/$defs/tree")' } }
        },
        slash: { type: 'null' },
        foreign: { description: '($ref: "https://example.com/x")' },
        dangling: { description: '($ref: "#/$defs/constructor")' },
        scalar: { description: '($ref: "#/$defs/tree/type")' }
      }
    })
  })

  it('reads a reference as a fragment of a URI, and takes an anchor for no pointer', () => {
    const $defs = { 'List<A>': { type: 'string' }, anchored: { $anchor: 'here', type: 'null' } }
    const { properties } = lowered(
      'anthropic',
      { a: { $ref: '#/$defs/List%3CA%3E' }, b: { $ref: '#here' }, c: { $ref: '#/$defs/%' } },
      { $defs }
    )
    expect(properties).toEqual({
      a: { type: 'string' },
      b: { description: '($ref: "#here")' },
      c: { description: '($ref: "#/$defs/%")' }
    })
  })

  it('does not let doubling references grow without end (reliability.md §0.9)', () => {
    const $defs: JsonObject = { x0: { type: 'string' } }
    for (let i = 1; i < 40; i += 1)
      $defs[`x${i}`] = { type: 'array', prefixItems: [{ $ref: `#/$defs/x${i - 1}` }, { $ref: `#/$defs/x${i - 1}` }] }
    const { parameters } = lowered('anthropic', { a: { $ref: '#/$defs/x39' } }, { $defs })
    expect(JSON.stringify(parameters).length).toBeLessThan(100_000)
  })

  it('keeps a keyword named __proto__ of a reference target as data', () => {
    const $defs = JSON.parse('{"x":{"__proto__":{"type":"string"},"title":"t"}}') as JsonObject
    const { properties } = lowered('anthropic', { a: { $ref: '#/$defs/x' } }, { $defs })
    expect(Object.getPrototypeOf(properties.a)).toBe(Object.prototype)
    expect(JSON.stringify(properties.a)).toBe('{"__proto__":{"type":"string"},"title":"t"}')
  })
})

describe('gemini', () => {
  const gemini = (value: JsonObject) => lowered('gemini', { a: value }).properties.a

  it.each<[string, JsonObject, JsonObject]>([
    ['a nullable type', { type: ['string', 'null'] }, { type: 'string', nullable: true }],
    ['a list of one type', { type: ['string'] }, { type: 'string' }],
    [
      'several types',
      { type: ['string', 'integer', 'null'] },
      { anyOf: [{ type: 'string' }, { type: 'integer' }, { type: 'null' }] }
    ],
    [
      'several types beside anyOf',
      { type: ['string', 'integer'], anyOf: [{}] },
      { anyOf: [{ description: '(type: ["string","integer"])' }] }
    ],
    ['a string const', { const: 'x' }, { type: 'string', enum: ['x'] }],
    ['another const', { type: 'integer', const: 1 }, { type: 'integer', description: '(const: 1)' }],
    [
      'const beside enum',
      { enum: ['x', 'y'], const: 'x' },
      { type: 'string', enum: ['x', 'y'], description: '(const: "x")' }
    ],
    ['an enum of numbers', { type: 'integer', enum: [1, 2] }, { type: 'integer', description: '(enum: [1,2])' }],
    [
      'an enum of strings on another type',
      { type: 'integer', enum: ['1'] },
      { type: 'integer', description: '(enum: ["1"])' }
    ],
    ['an unknown format', { type: 'string', format: 'uuid' }, { type: 'string', description: '(format: "uuid")' }],
    ['a known format', { type: 'string', format: 'date-time' }, { type: 'string', format: 'date-time' }],
    [
      'bounds it has no word for',
      { type: 'number', exclusiveMinimum: 0, minimum: 0 },
      { type: 'number', minimum: 0, description: '(exclusiveMinimum: 0)' }
    ],
    ['an open object', { type: 'object', additionalProperties: true }, { type: 'object' }],
    [
      'a closed object',
      { type: 'object', additionalProperties: false },
      { type: 'object', description: '(additionalProperties: false)' }
    ],
    ['identifiers', { $schema: 's', $id: 'i', $comment: 'c', type: 'string' }, { type: 'string' }],
    [
      'oneOf with a description',
      { description: 'D.', oneOf: [{ type: 'string', description: 'S.' }, {}] },
      { anyOf: [{ type: 'string', description: 'D. S.' }, {}] }
    ],
    [
      'what stands beside anyOf',
      { title: 'T', anyOf: [{ type: 'string' }, {}] },
      { anyOf: [{ type: 'string', description: '(title: "T")' }, {}] }
    ],
    [
      'anyOf beside a type',
      { type: 'object', properties: {}, anyOf: [{ required: ['x'] }] },
      { type: 'object', properties: {}, description: '(anyOf: [{"required":["x"]}])' }
    ],
    [
      'required names without a property',
      { type: 'object', properties: { x: {} }, required: ['x', 'toString'] },
      { type: 'object', properties: { x: {} }, required: ['x'], description: '(required: ["x","toString"])' }
    ],
    ['required alone', { type: 'object', required: ['y'] }, { type: 'object', description: '(required: ["y"])' }],
    [
      'boolean schemas',
      { type: 'object', properties: { yes: true, no: false } },
      { type: 'object', properties: { yes: {}, no: { description: '(never valid)' } } }
    ],
    ['an enum beside anyOf', { enum: ['x'], anyOf: [{}] }, { anyOf: [{ description: '(enum: ["x"])' }] }],
    ['anyOf of what is no schema', { description: 'D.', anyOf: [7] }, { description: 'D.', anyOf: [7] }],
    ['an empty anyOf', { description: 'D.', anyOf: [] }, { description: 'D.', anyOf: [] }]
  ])('says %s', (_what, given, expected) => {
    expect(gemini(given)).toEqual(expected)
  })

  it('keeps an object without parameters an object', () => {
    const { schemas } = formatSchemas([{ name: 'x', description: '', parameters: { type: 'object' } }], 'gemini')
    expect(schemas[0]?.parameters).toEqual({ type: 'object', properties: {} })
  })

  it('clips what would bloat a description, and says so in it', () => {
    const value = gemini({ type: 'integer', enum: Array.from({ length: 1000 }, (_, i) => i) })
    expect(JSON.stringify(value).length).toBeLessThan(600)
    expect(value?.description).toContain('…')
  })
})

it('lowers schemas that are too deep for recursion, and bounds what it says of them', () => {
  let deep: JsonObject = { type: 'string', pattern: 'x' }
  for (let level = 0; level < 5000; level += 1) deep = { oneOf: [deep, { type: 'null' }] }
  for (const format of providerFormats) {
    expect(formatSchemas([schemaOf({ deep })], format).schemas).toHaveLength(1)
  }
  const { notes } = formatSchemas([schemaOf({ deep })], 'openai')
  expect(notes).toHaveLength(51)
  expect(notes.at(-1)?.note).toBe('4950 more changes')
  expect(JSON.stringify(notes).length).toBeLessThan(20_000)
})
