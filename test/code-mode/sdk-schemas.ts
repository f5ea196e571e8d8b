import fc from 'fast-check'
import type { JsonObject, JsonValue } from '../../server/json/lossless.ts'
import type { JsonSchema } from '../../server/schema/spec.ts'

/** A schema with a value that it accepts and, if there is one that is easy to find, one that it does not. */
export interface Sample {
  schema: JsonSchema
  value: JsonValue
  refused?: JsonValue
}

const json: fc.Arbitrary<JsonValue> = fc
  .jsonValue({ maxDepth: 2, noUnicodeString: false })
  .map((value) => JSON.parse(JSON.stringify(value)) as JsonValue)

/** Text that would like to leave its comment, its string or its line. */
export const text: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom(
    '',
    ' ',
    '*/',
    '"""',
    'a|b',
    '&',
    '\\',
    '"',
    '\n```\n',
    '\r',
    '\u2028',
    '\u0000\u007f\u0085',
    '\ud800',
    '${x}',
    "'''",
    '#',
    '/*',
    '//'
  ),
  fc.string({ maxLength: 8 }),
  fc.string({ maxLength: 6, unit: 'binary' })
)

// Not `constructor` and `toString`: TypeScript holds that every object has them, so no value could be without.
const plainNames = ['a', 'b', 'value', 'é', 'match', 'ƛ', '𠀀', '𱍐', 'a・', '_', 'x1', 'get', 'readonly', 'async_']
const oddNames = ['my-key', '3d', '', ' ', 'class', 'a|b', '*/', '"', '1', '__x', '$ref', 'ﬁ', '\n', 'new']
const name = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...plainNames) },
  { weight: 1, arbitrary: fc.constantFrom(...oddNames) }
)

const annotated = (sample: fc.Arbitrary<Sample>): fc.Arbitrary<Sample> =>
  fc
    .tuple(sample, fc.option(text))
    .map(([found, description]) =>
      description === null ? found : { ...found, schema: { ...found.schema, description } }
    )

const finite = fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => (Object.is(value, -0) ? 0 : value))

function scalar(type: string, values: fc.Arbitrary<JsonValue>, refused: JsonValue): fc.Arbitrary<Sample> {
  return fc.oneof(
    values.map((value) => ({ schema: { type }, value, refused })),
    values.map((value) => ({ schema: { type, const: value }, value, refused })),
    fc
      .uniqueArray(values, { minLength: 1, maxLength: 4 })
      .map((all) => ({ schema: { type, enum: all }, value: all[0]!, refused }))
  )
}

const scalars: fc.Arbitrary<Sample> = fc.oneof(
  scalar('string', text, 5),
  scalar('number', finite, 'no'),
  scalar('integer', fc.oneof(fc.integer(), fc.constantFrom(1e21, -1e21)), 'no'),
  scalar('boolean', fc.boolean(), 'no'),
  scalar('null', fc.constant(null), 'no')
)

const anything: fc.Arbitrary<Sample> = json.map((value) => ({ schema: {}, value }))

function arrays(item: fc.Arbitrary<Sample>): fc.Arbitrary<Sample> {
  return fc.oneof(
    fc.array(json, { maxLength: 2 }).map((value) => ({ schema: { type: 'array' }, value, refused: 'no' })),
    fc.tuple(item, fc.nat(2)).map(([{ schema, value, refused }, length]) => ({
      schema: { type: 'array', items: schema },
      value: Array.from({ length }, () => value),
      refused: refused === undefined ? 'no' : [refused]
    }))
  )
}

function objects(item: fc.Arbitrary<Sample>): fc.Arbitrary<Sample> {
  const member = fc.record({ name, sample: item, isRequired: fc.boolean(), isThere: fc.boolean() })
  const members = fc.uniqueArray(member, { maxLength: 4, selector: (found) => found.name })
  return fc.tuple(members, fc.constantFrom(undefined, true, false), json).map(([all, further, extra]) => {
    const schema: JsonObject = {
      type: 'object',
      properties: Object.fromEntries(all.map((found) => [found.name, found.sample.schema]))
    }
    const required = all.filter((found) => found.isRequired)
    if (required.length > 0) schema['required'] = required.map((found) => found.name)
    if (further !== undefined) schema['additionalProperties'] = further
    const value: JsonObject = Object.fromEntries(
      all.filter((found) => found.isRequired || found.isThere).map((found) => [found.name, found.sample.value])
    )
    const refused = required.length > 0 ? {} : ['no']
    if (further !== false) value['another member'] = extra
    return { schema, value, refused }
  })
}

const unions = (keyword: string, item: fc.Arbitrary<Sample>): fc.Arbitrary<Sample> =>
  fc.tuple(fc.array(item, { minLength: 2, maxLength: 4 }), fc.nat(3)).map(([branches, pick]) => ({
    schema: { [keyword]: branches.map((branch) => branch.schema) },
    value: branches[pick % branches.length]!.value
  }))

/** Schemas of the supported subset, every kind of them (core.md §3). */
export const supported: fc.Arbitrary<Sample> = fc.letrec<{ node: Sample }>((tie) => ({
  node: annotated(
    fc.oneof(
      { maxDepth: 4, depthIdentifier: 'schema' },
      scalars,
      anything,
      arrays(tie('node')),
      objects(tie('node')),
      unions('oneOf', tie('node'))
    )
  )
})).node

const bounds = fc.constantFrom<JsonObject>(
  {},
  { minLength: 0, format: 'uri' },
  { pattern: '*/|"""\\' },
  { minimum: -1e300 },
  { not: false, if: true },
  { title: 't', 'x-vendor': { $ref: 7 }, $comment: 'c' }
)

const linked: fc.Arbitrary<Sample> = fc.constantFrom<Sample>(
  { schema: { $ref: '#/$defs/point' }, value: { x: 1, y: null }, refused: { x: 'no' } },
  { schema: { $ref: '#/$defs/tree' }, value: { kids: [{ kids: [] }, {}] }, refused: { kids: [{ kids: 'no' }] } },
  { schema: { $ref: '#/$defs/list' }, value: [[[]], 'leaf'], refused: [[1]] },
  { schema: { $ref: '#/$defs/map' }, value: { a: { b: {} } }, refused: { a: { b: 'no' } } },
  { schema: { $ref: '#/$defs/both' }, value: { x: 1, y: 2, z: 's' }, refused: { x: 1, y: 2 } },
  { schema: { $ref: '#/$defs/small' }, value: 's', refused: 5 },
  { schema: { $ref: '#/$defs/self' }, value: 'anything' },
  { schema: { $ref: '#mark' }, value: true, refused: 'no' },
  { schema: { $ref: 'https://elsewhere.example/schema' }, value: 'anything' },
  { schema: { $ref: '#/$defs/missing' }, value: 'anything' }
)

const definitions: JsonObject = {
  point: {
    type: 'object',
    properties: { x: { type: 'number' }, y: { type: ['number', 'null'] } },
    required: ['x'],
    additionalProperties: false
  },
  tree: {
    type: 'object',
    description: 'A tree.',
    properties: { kids: { type: 'array', items: { $ref: '#/$defs/tree' } } }
  },
  list: { anyOf: [{ type: 'array', items: { $ref: '#/$defs/list' } }, { type: 'string' }] },
  map: { type: 'object', additionalProperties: { $ref: '#/$defs/map' } },
  both: {
    allOf: [
      { $ref: '#/$defs/loose' },
      { type: 'object', properties: { z: { $ref: '#/$defs/small' } }, required: ['z'] }
    ]
  },
  loose: { type: 'object', properties: { x: { type: 'number' }, y: { type: 'number' } }, required: ['x', 'y'] },
  small: { type: 'string', description: 'Small.' },
  self: { anyOf: [{ $ref: '#/$defs/self' }, { type: 'string' }] },
  marked: { $anchor: 'mark', type: 'boolean' }
}

const composite: fc.Arbitrary<Sample> = fc.oneof(
  fc
    .uniqueArray(json, { minLength: 1, maxLength: 4, selector: (value) => JSON.stringify(value) })
    .map((all) => ({ schema: { enum: all }, value: all[0]! })),
  json.map((value) => ({ schema: { const: value }, value })),
  text.map((value) => ({ schema: { type: ['string', 'null'], enum: [value, null, 5] }, value, refused: 5 })),
  fc.boolean().map((value) => ({ schema: { type: ['boolean', 'integer', 'null'] }, value, refused: 'no' })),
  fc.constant({ schema: { type: 'string', nullable: true }, value: null, refused: 5 })
)

function foreignContainers(item: fc.Arbitrary<Sample>): fc.Arbitrary<Sample> {
  return fc.oneof(
    fc
      .tuple(
        fc.array(item, { minLength: 1, maxLength: 3 }),
        fc.constantFrom<JsonObject>({}, { items: false }, { minItems: 1 }, { items: { type: 'null' } })
      )
      .map(([items, more]) => ({
        schema: { type: 'array', prefixItems: items.map(({ schema }) => schema), ...more },
        value: items.map(({ value }) => value),
        refused: 'no'
      })),
    fc.tuple(item, item).map(([first, rest]) => ({
      schema: { items: [first.schema], additionalItems: rest.schema },
      value: [first.value, rest.value, rest.value],
      refused: 'no'
    })),
    item.map(({ schema, value, refused }) => ({
      schema: { type: 'object', additionalProperties: schema },
      value: { one: value, 'the other': value },
      refused: refused === undefined ? 'no' : { one: refused }
    })),
    fc.tuple(item, item).map(([left, right]) => ({
      schema: {
        allOf: [
          { type: 'object', properties: { left: left.schema }, required: ['left'] },
          { properties: { right: right.schema }, anyOf: [{ required: ['left'] }, { required: ['right'] }] }
        ]
      },
      value: { left: left.value, right: right.value },
      refused: {}
    })),
    item.map(({ schema, value }) => ({
      schema: { type: 'object', properties: { v: schema, never: false }, patternProperties: { '^x': {} } },
      value: { v: value, x1: [1] },
      refused: 'no'
    }))
  )
}

/** Schemas of other generators, each with the definitions that its references need. */
export const foreign: fc.Arbitrary<Sample> = fc
  .letrec<{ node: Sample }>((tie) => ({
    node: annotated(
      fc
        .tuple(
          fc.oneof(
            { maxDepth: 4, depthIdentifier: 'schema' },
            scalars,
            anything,
            linked,
            composite,
            arrays(tie('node')),
            objects(tie('node')),
            unions('anyOf', tie('node')),
            foreignContainers(tie('node'))
          ),
          bounds
        )
        .map(([sample, more]) => ({ ...sample, schema: { ...more, ...sample.schema } }))
    )
  }))
  .node.map((sample) => ({ ...sample, schema: { ...sample.schema, $defs: definitions } }))

/** Schemas that mean nothing, or not what they seem: any JSON under the names of keywords. */
export const nonsense: fc.Arbitrary<JsonValue> = fc.letrec<{ node: JsonValue }>((tie) => {
  const keyword = fc.constantFrom(
    ...[
      'type',
      'properties',
      'required',
      'additionalProperties',
      'items',
      'prefixItems',
      'enum',
      'const',
      'oneOf',
      'anyOf',
      'allOf',
      '$ref',
      '$defs'
    ],
    ...[
      'minItems',
      'maxItems',
      'description',
      'nullable',
      'patternProperties',
      'not',
      '$anchor',
      '$id',
      'additionalItems',
      'format',
      'a'
    ]
  )
  const value = fc.oneof(
    { maxDepth: 5, depthIdentifier: 'nonsense' },
    fc.constantFrom<JsonValue>(
      '#',
      '#/$defs/a',
      '#a',
      '#/properties/a',
      '#/items/0',
      '#/%',
      'string',
      'object',
      'array',
      ['object', 'null'],
      true,
      false,
      0,
      2,
      null
    ),
    json,
    tie('node'),
    fc.array(tie('node'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom('a', 'b', '__proto__', 'x-y'), tie('node'), { maxKeys: 3 }) as fc.Arbitrary<JsonValue>
  )
  return { node: fc.dictionary(keyword, value, { maxKeys: 5 }) as fc.Arbitrary<JsonValue> }
}).node
