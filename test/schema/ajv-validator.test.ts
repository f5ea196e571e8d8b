import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { JsonValue } from '../../server/json/lossless.ts'
import { WireSchemas } from '../../server/schema/ajv-validator.ts'

const draft7 = 'http://json-schema.org/draft-07/schema#'
const parse = (text: string): any => JSON.parse(text)

let schemas: WireSchemas
beforeAll(() => {
  schemas = new WireSchemas()
})
afterAll(async () => {
  await schemas.close()
  expect(Object.keys(Object.prototype), 'S14').toEqual([])
})

/** What is wrong with each value, `undefined` for nothing. */
async function verdicts(schema: unknown, ...values: unknown[]): Promise<(string | undefined)[]> {
  const { validate } = await schemas.compile(schema)
  const found: (string | undefined)[] = []
  for (const value of values) {
    const violations = await validate(value as JsonValue, '')
    expect(violations.length).toBeLessThan(2)
    found.push(violations[0])
  }
  return found
}

const refusal = (schema: unknown): Promise<unknown> => schemas.compile(schema).catch((error: unknown) => error)
const unsupported = (message: unknown) =>
  expect.objectContaining({ name: 'JsonSchemaError', code: 'UNSUPPORTED_SCHEMA', message })

describe('schemas from outside are enforced (api.md §3)', () => {
  it('names the place of what is wrong, as arguments do', async () => {
    const schema = {
      type: 'object',
      properties: {
        servers: {
          type: 'array',
          items: { type: 'object', required: ['host'], properties: { host: { type: 'string' }, 'a/b~c': { const: 1 } } }
        },
        mode: { enum: ['fast', 'safe'] },
        either: { anyOf: [{ type: 'string' }, { type: 'object', required: ['id'] }] }
      },
      additionalProperties: false
    }
    expect(
      await verdicts(
        schema,
        { servers: [{ host: 'x' }], mode: 'fast', either: 'a' },
        [],
        { servers: [{ host: 'x' }, { host: 5 }] },
        { servers: [{}] },
        { servers: [{ host: 'x', 'a/b~c': 2 }] },
        { mode: 'slow' },
        { either: {} },
        { other: 1 }
      )
    ).toEqual([
      undefined,
      '"arguments" must be object',
      '"servers[1].host" must be string',
      '"servers[0].host" is required',
      '"servers[0]["a/b~c"]" must be 1',
      '"mode" must be one of ["fast","safe"]',
      '"either" must match a schema in anyOf ("either" must be string; "either.id" is required)',
      '"other" is not declared'
    ])
    const { validate } = await schemas.compile(schema)
    expect(await validate([], 'value')).toEqual(['"value" must be object'])
  })

  it('fills in nothing, converts nothing, drops nothing', async () => {
    const { validate } = await schemas.compile({
      properties: { a: { type: 'number', default: 1 }, b: { $data: '/a' }, c: { const: { $data: '1/a' } } },
      additionalProperties: false,
      required: ['a']
    })
    expect(await validate({}, '')).toEqual(['"a" is required'])
    expect(await validate({ a: '1' }, '')).toEqual(['"a" must be number'])
    expect(await validate({ a: 1, c: 1 }, '')).toEqual(['"c" must be {"$data":"1/a"}'])
  })

  it('F39 a reference to a sibling works, as do definitions, anchors, recursion and the root', async () => {
    expect(
      await verdicts({ properties: { x: { type: 'string' }, y: { $ref: '#/properties/x' } } }, { y: 'a' }, { y: 1 })
    ).toEqual([undefined, '"y" must be string'])
    const schema = {
      $id: 'https://example.com/tree',
      $defs: { 'a name/%': { $anchor: 'leaf', type: 'integer' } },
      properties: {
        byPointer: { $ref: '#/$defs/a%20name~1%25' },
        byAnchor: { $ref: '#leaf' },
        children: { type: 'array', items: { $ref: '#' } }
      },
      additionalProperties: false
    }
    expect(
      await verdicts(
        schema,
        { byPointer: 'a' },
        { byAnchor: 'a' },
        { children: [{ children: [{ children: 1 }] }] },
        {
          children: [{ children: [] }]
        }
      )
    ).toEqual([
      '"byPointer" must be integer',
      '"byAnchor" must be integer',
      '"children[0].children[0].children" must be array',
      undefined
    ])
  })

  it('F41 unknown keywords and formats are accepted and say nothing', async () => {
    const schema = {
      'x-foo': 1,
      id: 'old',
      nullable: true,
      discriminator: { propertyName: 'kind' },
      properties: {
        n: { type: 'integer', format: 'uint32' },
        m: { format: 'email' },
        s: { $recursiveRef: '#', nullable: false }
      }
    }
    expect(await verdicts(schema, { n: -1, m: 'no address', s: { n: 'a' } }, { n: 'a' })).toEqual([
      undefined,
      '"n" must be integer'
    ])
    expect(await verdicts({ type: 'string', nullable: true }, null, 1)).toEqual([
      undefined,
      '"arguments" must be string'
    ])
  })

  it('a schema that ajv would check asynchronously is checked', async () => {
    expect(await verdicts({ $async: true, properties: { a: { $async: true, type: 'string' } } }, { a: 1 })).toEqual([
      '"a" must be string'
    ])
  })

  it('each draft by its own rules: 2020-12 unless another is named', async () => {
    const tuple = [{ type: 'string' }, { type: 'number' }]
    expect(await verdicts({ prefixItems: tuple, items: false }, ['a', 1], ['a', 'b'], ['a', 1, 2])).toEqual([
      undefined,
      '"[1]" must be number',
      '"arguments" must NOT have more than 2 items'
    ])
    expect(
      await verdicts({ $schema: draft7, items: tuple, additionalItems: false }, ['a', 1], ['a', 'b'], ['a', 1, 2])
    ).toEqual([undefined, '"[1]" must be number', '"arguments" must NOT have more than 2 items'])
    expect(
      await verdicts(
        { $schema: draft7, definitions: { a: { $id: '#word', type: 'string' } }, items: { $ref: '#word' } },
        [1]
      )
    ).toEqual(['"[0]" must be string'])
    expect(await verdicts({ $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'string' }, 1)).toEqual([
      '"arguments" must be string'
    ])
    expect(
      await verdicts({ allOf: [{ properties: { a: true } }], unevaluatedProperties: false }, { a: 1 }, { b: 1 })
    ).toEqual([undefined, '"b" is not declared'])
    expect(await refusal({ items: tuple })).toEqual(unsupported(expect.stringContaining('"schema.items" must be')))
    expect(await refusal({ $schema: 'http://json-schema.org/draft-04/schema#' })).toEqual(
      unsupported(expect.stringContaining('"schema.$schema" must name draft 2020-12 or draft-07'))
    )
  })

  it('S15 two tools with different patterns validate differently', async () => {
    const digits = await schemas.compile({ properties: { v: { pattern: '^[0-9]+$' } } })
    const letters = await schemas.compile({ properties: { v: { pattern: '^[a-z]+$' } } })
    expect(await digits.validate({ v: '12' }, '')).toEqual([])
    expect(await letters.validate({ v: 'ab' }, '')).toEqual([])
    expect(await digits.validate({ v: 'ab' }, '')).toEqual(['"v" must match pattern "^[0-9]+$"'])
    expect(await letters.validate({ v: '12' }, '')).toEqual(['"v" must match pattern "^[a-z]+$"'])
    expect(
      await verdicts(
        { patternProperties: { '^x-': { type: 'string' }, '^y-': { type: 'number' } } },
        { 'x-a': 1 },
        {
          'y-a': 1
        }
      )
    ).toEqual(['"x-a" must be string', undefined])
  })
})

describe('names are data (reliability.md §0.10)', () => {
  it('what every object inherits is not there', async () => {
    const required = ['constructor', 'toString', '__proto__']
    expect(await verdicts({ required }, {}, parse('{"constructor":1,"toString":1,"__proto__":1}'))).toEqual([
      '"constructor" is required',
      undefined
    ])
    expect(await verdicts({ properties: { valueOf: { type: 'string' } } }, {}, { valueOf: 1 })).toEqual([
      undefined,
      '"valueOf" must be string'
    ])
    expect(await refusal({ $ref: '#/constructor' })).toEqual(
      unsupported(expect.stringContaining('"schema.$ref" does not lead'))
    )
    expect(await refusal({ $ref: '#/$defs/__proto__', $defs: {} })).toEqual(unsupported(expect.any(String)))
  })

  it('a member called __proto__ is held to its schema, however it is declared', async () => {
    const closed = parse('{"properties":{"__proto__":{"type":"string"}},"additionalProperties":false}')
    expect(await verdicts(closed, parse('{"__proto__":"a"}'), parse('{"__proto__":1}'), { other: 1 })).toEqual([
      undefined,
      '"__proto__" must be string',
      '"other" is not declared'
    ])
    const patterns = parse('{"patternProperties":{"__proto__":{"type":"string"},"^__proto__$":{"minLength":2}}}')
    expect(await verdicts(patterns, parse('{"__proto__":1}'), parse('{"__proto__":"a"}'), { my__proto__: 1 })).toEqual([
      '"__proto__" must be string',
      expect.stringContaining('"__proto__" must NOT have fewer'),
      '"my__proto__" must be string'
    ])
    const both = parse(
      '{"properties":{"__proto__":{"type":"string"}},"patternProperties":{"^__proto__$":{"minLength":2}}}'
    )
    expect(
      await verdicts(both, parse('{"__proto__":1}'), parse('{"__proto__":"a"}'), parse('{"__proto__":"ab"}'))
    ).toEqual(['"__proto__" must be string', expect.stringContaining('must NOT have fewer'), undefined])
    expect(await verdicts(parse('{"dependentRequired":{"__proto__":["a"]}}'), parse('{"__proto__":1}'))).toEqual([
      expect.stringContaining('must have property a')
    ])
    expect(await refusal(parse('{"dependencies":{"__proto__":["a"]}}'))).toEqual(
      unsupported(expect.stringContaining('"schema.dependencies" may not name "__proto__"'))
    )
  })

  it('paths in what is refused are those of the schema that was sent', async () => {
    for (const [text, message] of [
      ['{"properties":{"__proto__":{"type":"strin"}}}', '"schema.properties.__proto__.type" must'],
      ['{"patternProperties":{"__proto__":{"minLength":-1}}}', '"schema.patternProperties.__proto__.minLength" must'],
      ['{"properties":{"__proto__":{"pattern":"(?=a)"}}}', '"schema.properties.__proto__.pattern" is not supported'],
      ['{"$schema":"http://json-schema.org/draft-07/schema#","items":[{},{"type":5}]}', '"schema.items[1].type" must']
    ] as const) {
      expect(await refusal(parse(text))).toEqual(unsupported(expect.stringContaining(message)))
    }
  })

  it('the schema that is kept is the one that was given, frozen and detached', async () => {
    const given = parse('{"$async":true,"properties":{"__proto__":{"type":"string"}}}')
    const { schema } = await schemas.compile(given)
    expect(JSON.stringify(schema)).toBe('{"$async":true,"properties":{"__proto__":{"type":"string"}}}')
    expect(Object.isFrozen(schema['properties'])).toBe(true)
    expect(Object.isFrozen(given)).toBe(false)
  })
})

/** `{ $ref }` to a definition that refers twice to the next one, and so on. */
function doubling(depth: number): object {
  const $defs: Record<string, object> = { [`d${depth}`]: { type: 'object' } }
  for (let n = 0; n < depth; n += 1)
    $defs[`d${n}`] = { allOf: [{ $ref: `#/$defs/d${n + 1}` }, { $ref: `#/$defs/d${n + 1}` }] }
  return { $ref: '#/$defs/d0', $defs }
}

const nested = (depth: number, wrap: (inner: object) => object): object => {
  let schema: object = {}
  for (let n = 0; n < depth; n += 1) schema = wrap(schema)
  return schema
}

const members = (count: number, schema: (n: number) => unknown) =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`p${n}`, schema(n)]))

describe('limits are held before ajv sees a schema (reliability.md §1.6)', () => {
  it.each<[string, unknown, string]>([
    ['no object', true, '"schema" must be an object'],
    ['a list', [], '"schema" must be an object'],
    ['lossy JSON', { default: undefined }, '"schema" must be lossless JSON'],
    ['64 KiB', { description: 'é'.repeat(33_000) }, '"schema" is larger than 65536 bytes'],
    ['4,000 levels', nested(4_000, (items) => ({ items })), '"schema" nests deeper than 64 levels'],
    ['65 levels', nested(64, (items) => ({ items })), '"schema" nests deeper than 64 levels'],
    ['levels of data', { const: JSON.parse('['.repeat(64) + ']'.repeat(64)) }, '"schema" nests deeper than 64 levels'],
    ['2,001 subschemas', { properties: members(2_001, () => ({})) }, '"schema" has more than 2000 subschemas'],
    ['boolean ones', { properties: members(2_001, () => true), items: {} }, '"schema" has more than 2000 subschemas'],
    [
      '65 references',
      { properties: members(65, () => ({ $ref: '#' })) },
      'is one reference more than the 64 there may be'
    ],
    ['doubled references', doubling(22), '"schema" has more than 10000 nodes once its references are written out'],
    [
      'another host',
      { properties: { a: { $ref: 'https://example.com/a.json' } } },
      '"schema.properties.a.$ref" leads out'
    ],
    ['a file', { items: { $ref: 'a.json#/b' } }, '"schema.items.$ref" leads out'],
    ['another host, dynamically', { $dynamicRef: 'https://example.com/a.json#b' }, '"schema.$dynamicRef" leads out'],
    ['nowhere', { $ref: '#/$defs/none' }, '"schema.$ref" does not lead to a schema'],
    ['no schema', { required: ['a'], $ref: '#/required' }, '"schema.$ref" does not lead to a schema'],
    ['a broken pointer', { $ref: '#/%zz' }, '"schema.$ref" does not lead to a schema'],
    [
      'a reference within a resource of its own',
      { $defs: { a: { $id: 'https://example.com/a', items: { $ref: '#/$defs/b' }, $defs: { b: {} } } } },
      '"schema.$defs.a.items.$ref" is below an "$id" of its own'
    ],
    ['unbounded uniqueItems', { items: { uniqueItems: true } }, '"schema.items.uniqueItems" needs a "maxItems"'],
    ['1,001 unique items', { uniqueItems: true, maxItems: 1_001 }, '"schema.uniqueItems" needs a "maxItems"'],
    [
      'the same where only a reference makes it a schema',
      { $ref: '#/x-hidden/a', 'x-hidden': { a: { uniqueItems: true } } },
      'uniqueItems" needs a "maxItems"'
    ],
    ['look-around', { properties: { a: { pattern: '^(?=a)' } } }, '"schema.properties.a.pattern" is not supported'],
    ['a reference back', { pattern: '(a)\\1' }, '"schema.pattern" is not supported'],
    ['a count of 1,001', { pattern: 'a{1001}' }, '"schema.pattern" is not supported'],
    [
      'look-around in a name',
      { patternProperties: { '(?!a)': {} } },
      '"schema.patternProperties["(?!a)"]" is not supported'
    ],
    [
      'a wrong type',
      { properties: { a: { type: 'strin' } } },
      '"schema.properties.a.type" must match a schema in anyOf'
    ],
    ['a wrong keyword', { items: { maxItems: -1 } }, '"schema.items.maxItems" must be >= 0'],
    ['a wrong member', parse('{"properties":{"__proto__":5}}'), '"schema.properties.__proto__" must be object,boolean'],
    [
      'an ambiguous anchor',
      { $defs: { a: { $anchor: 'x', type: 'string' }, b: { $anchor: 'x' } } },
      '"schema" does not compile'
    ]
  ])('%s is refused', async (_, schema, message) => {
    expect(await refusal(schema)).toEqual(unsupported(expect.stringContaining(message)))
  })

  it('what is just within them is accepted', async () => {
    const within = [
      nested(63, (items) => ({ items })),
      { properties: members(60, () => ({ $ref: '#/$defs/a' })), $defs: { a: { type: 'string' } } },
      doubling(10),
      { uniqueItems: true, maxItems: 1_000 },
      // What two references make schemas of is counted once.
      {
        allOf: [{ $ref: '#/x-hidden/items' }, { $ref: '#/x-hidden' }],
        'x-hidden': { items: { properties: members(1_500, () => true) } }
      },
      { $id: 'https://example.com/root', properties: { a: { $id: 'https://example.com/generated', type: 'string' } } },
      { properties: { $ref: { type: 'string' }, pattern: { type: 'string' }, uniqueItems: { const: true } } },
      { default: { $ref: 'https://example.com', uniqueItems: true }, enum: [{ $ref: 'x', pattern: '(?=a)' }] }
    ]
    for (const schema of within) await expect(schemas.compile(schema)).resolves.toBeDefined()
  })

  it('paths begin with the label that is given', async () => {
    await expect(schemas.compile({ items: { pattern: '(?=a)' } }, 'parameters')).rejects.toThrow(
      '"parameters.items.pattern" is not supported'
    )
    await expect(schemas.compile(5, 'output.schema')).rejects.toThrow('"output.schema" must be an object')
  })
})

describe('hostile schemas and values (S13)', () => {
  it('a pattern that backtracks for ever elsewhere takes its linear time', async () => {
    expect(await verdicts({ pattern: '^(a|a)*$' }, `${'a'.repeat(20_000)}!`, 'a'.repeat(20_000))).toEqual([
      '"arguments" must match pattern "^(a|a)*$"',
      undefined
    ])
  })

  it('schemas that recurse without end are a violation, and so is a value that nests beyond the stack', async () => {
    const deep = JSON.parse(`${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`) as unknown
    const endless = await verdicts({ $ref: '#' }, {})
    expect(endless).toEqual([expect.stringContaining('"arguments" cannot be checked')])
    expect(await verdicts({ allOf: [{ $ref: '#/$defs/a' }], $defs: { a: { allOf: [{ $ref: '#' }] } } }, {})).toEqual([
      expect.stringContaining('"arguments" cannot be checked')
    ])
    expect(await verdicts({ properties: { a: { $ref: '#' } } }, deep, { a: {} })).toEqual([
      expect.stringContaining('"arguments" cannot be checked'),
      undefined
    ])
  })

  it('many unique items end at their number', async () => {
    const items = Array.from({ length: 20_000 }, (_, id) => ({ id }))
    expect(await verdicts({ uniqueItems: true, maxItems: 1_000 }, items, [1, 1])).toEqual([
      '"arguments" must NOT have more than 1000 items',
      expect.stringContaining('must NOT have duplicate items')
    ])
  })

  /** Each level tries the next one twice: 2^30 checks, though the schema is written out in a few nodes. */
  const next = { properties: { a: { $ref: '#' } } }
  const exponential = {
    anyOf: [{ allOf: [next, { required: ['b'] }] }, { allOf: [next, { required: ['c'] }] }]
  }
  const ladder = JSON.parse(`${'{"a":'.repeat(30)}{}${'}'.repeat(30)}`) as JsonValue

  it('a check without end is killed, the main loop turns meanwhile, and all others go on', async () => {
    const [hostile, good] = [await schemas.compile(exponential), await schemas.compile({ type: 'string' })]
    let turns = 0
    let isOver = false
    const late = hostile.validate(ladder, '').finally(() => (isOver = true))
    const waiting = [good.validate('a', ''), good.validate(1, '')]
    while (!isOver) {
      turns += 1
      await nextTurn()
    }
    expect(await late).toEqual(['"arguments" takes too long to check'])
    expect(turns).toBeGreaterThan(100)
    expect(await Promise.all(waiting)).toEqual([[], ['"arguments" must be string']])
    expect(await hostile.validate({ a: 1, b: 1 }, '')).toEqual([])
  })

  it('values are checked while a schema is compiled', async () => {
    const { validate } = await schemas.compile({ type: 'string' })
    expect(await validate('a', '')).toEqual([])
    let isOver = false
    const compiling = schemas
      .compile({ properties: members(1_900, () => ({ minLength: 1 })) })
      .then(undefined, () => undefined)
      .finally(() => (isOver = true))
    expect(await validate(1, '')).toEqual(['"arguments" must be string'])
    expect(isOver).toBe(false)
    await compiling
  })

  it('a schema that takes too long to compile is refused, and the next one is not', async () => {
    const pressed = new WireSchemas({ budgetMs: 1 })
    onTestFinished(() => pressed.close())
    await expect(pressed.compile({ properties: members(1_900, () => ({ minLength: 1 })) })).rejects.toThrow(
      '"schema" takes too long to compile'
    )
    const { validate } = await schemas.compile({ type: 'string' })
    expect(await validate('a', '')).toEqual([])
  })

  it('a check that needs too much memory costs the thread, not the server', async () => {
    const small = new WireSchemas({ budgetMs: 60_000, heapMb: 64 })
    onTestFinished(() => small.close())
    const { validate } = await small.compile({ contains: { type: 'array' } })
    expect(await validate(Array(500_000).fill(1), '')).toEqual(['"arguments" takes too much memory to check'])
    expect(await validate([[]], '')).toEqual([])
  })

  it('a text that the heap of the thread may not bear is not parsed', async () => {
    const small = new WireSchemas({ heapMb: 64 })
    onTestFinished(() => small.close())
    const { validate } = await small.compile({})
    expect(await validate('x'.repeat(1024 * 1024), 'value')).toEqual(['"value" is too large to check'])
    expect(await validate('x'.repeat(1024 * 1024 - 2), 'value')).toEqual([])
  })

  it('what the thread forgot is compiled again', async () => {
    const first = await schemas.compile({ type: 'string' })
    for (let n = 0; n < 70; n += 1) await schemas.compile({ description: 'x'.repeat(64_000), const: n })
    expect(await first.validate(1, '')).toEqual(['"arguments" must be string'])
    expect(await first.validate('a', '')).toEqual([])
  })
})

describe('the end', () => {
  it('closing ends what waits, and nothing starts after it', async () => {
    const closing = new WireSchemas()
    const { validate } = await closing.compile({ type: 'string' })
    const waiting = [validate('a', ''), closing.compile({})].map((answer) => answer.catch(String))
    await closing.close()
    expect(await Promise.all(waiting)).toEqual(Array(2).fill('Error: The thread of schemas is closed.'))
    await expect(validate('a', '')).rejects.toThrow('closed')
    await expect(closing.compile({})).rejects.toThrow('closed')
    await closing.close()
  })

  it('closing what never started', async () => {
    await new WireSchemas().close()
  })
})

it('a dialect that is no text is refused, and a reference may lead to a boolean', async () => {
  expect(await refusal({ $schema: 5 })).toEqual(unsupported(expect.stringContaining('$schema')))
  const schema = { properties: { a: { $ref: '#/$defs/never' } }, $defs: { never: false } }
  const [wrong, right] = await verdicts(schema, { a: 1 }, {})
  expect(wrong).toContain('a')
  expect(right).toBeUndefined()
})
