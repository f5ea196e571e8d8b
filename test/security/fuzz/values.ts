import * as fc from 'fast-check'
import { jsonKey, jsonValue, nest } from '../../helpers/json-arbitraries.ts'

export type Schema = Record<string, any>

/** Values that members and parameters of a name get instead of any that their schema allows: those of things that are there. */
export type Pools = Readonly<Record<string, fc.Arbitrary<unknown>>>

export const hostileString = fc.oneof(
  fc.constantFrom(
    ...[
      '',
      '__proto__',
      'constructor',
      'toString',
      'a\0b',
      '\ud800',
      'a\udc00',
      '\u202ecod',
      '\ufeff',
      '\u001b]52;c;eA==\u0007'
    ],
    ...[
      '.',
      '..',
      '../../../etc/passwd',
      '..%2f..',
      '%00',
      '%ff',
      '/',
      '//',
      '\\',
      '?',
      '#',
      '*',
      ':',
      'a,b',
      '[]',
      '{}',
      'null'
    ],
    ...[
      "' OR 1=1 --",
      '$(id)',
      '`id`',
      '\r\nX-Injected: 1',
      '-1',
      '1e999',
      '0x10',
      ' 1',
      '9'.repeat(400),
      'x'.repeat(2_500)
    ]
  ),
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.string({ maxLength: 40 })
)

export const hostile: fc.Arbitrary<unknown> = fc.oneof(
  { arbitrary: hostileString, weight: 3 },
  fc.constantFrom(null, true, 0, -1, 1.5, 1e308, 2 ** 53, 2 ** 31, -(2 ** 63), Number.MIN_VALUE),
  fc.constantFrom([], {}, [[]], nest(60, 1), nest(60, null, 'a'), nest(300, 0), nest(3_000, {}, '__proto__')),
  fc.constantFrom(
    Array.from({ length: 300 }, (_, at) => at),
    Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`k${at}`, at]))
  ),
  jsonValue
)

/** Half a character is what UTF-8 makes of it. */
export const wellFormed = (text: string): string => Buffer.from(text).toString()

/** A value that the schema allows. */
export function valid(schema: Schema, pools: Pools, name = ''): fc.Arbitrary<unknown> {
  const pool = Object.hasOwn(pools, name) ? pools[name] : undefined
  return pool === undefined
    ? ofSchema(schema, pools)
    : fc.oneof({ arbitrary: pool, weight: 9 }, ofSchema(schema, pools))
}

function ofSchema(schema: Schema, pools: Pools): fc.Arbitrary<unknown> {
  const options: Schema[] | undefined = schema['anyOf'] ?? schema['oneOf']
  if (options !== undefined) return fc.oneof(...options.map((option) => valid(option, pools)))
  if (schema['const'] !== undefined) return fc.constant(schema['const'])
  if (schema['enum'] !== undefined) return fc.constantFrom(...(schema['enum'] as unknown[]))
  switch (schema['type']) {
    case 'string':
      return ofString(schema)
    case 'integer':
      return fc.integer({
        min: schema['minimum'] ?? -1_000,
        max: Math.min(schema['maximum'] ?? 1_000, (schema['minimum'] ?? 0) + 2 ** 30)
      })
    case 'number':
      return fc.double({
        noNaN: true,
        noDefaultInfinity: true,
        min: schema['minimum'] ?? -1e9,
        max: schema['maximum'] ?? 1e9
      })
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    case 'array': {
      const minLength = schema['minItems'] ?? 0
      return fc.array(valid(schema['items'] ?? {}, pools), {
        minLength,
        maxLength: Math.max(minLength, Math.min(4, schema['maxItems'] ?? 4))
      })
    }
    case 'object':
      return ofObject(schema, pools)
    default:
      return jsonValue
  }
}

function ofString({ pattern, minLength = 0, maxLength = 60 }: Schema): fc.Arbitrary<string> {
  if (pattern === undefined) return fc.string({ minLength, maxLength: Math.min(maxLength, 60) })
  return fc.stringMatching(new RegExp(pattern as string))
}

function ofObject(
  { properties = {}, required = [], patternProperties = {}, additionalProperties }: Schema,
  pools: Pools
): fc.Arbitrary<unknown> {
  const members = Object.fromEntries(
    Object.entries(properties as Record<string, Schema>).map(([name, member]) => [name, valid(member, pools, name)])
  )
  const known = fc.record(members, { requiredKeys: required as string[] })
  const patterns = Object.entries(patternProperties as Record<string, Schema>).map(([pattern, member]) =>
    fc.dictionary(fc.stringMatching(new RegExp(pattern)), valid(member, pools), { maxKeys: 3 })
  )
  const isOpen = additionalProperties === true || (typeof additionalProperties === 'object' && patterns.length === 0)
  const more = isOpen
    ? [
        fc.dictionary(
          jsonKey,
          additionalProperties === true ? jsonValue : valid(additionalProperties as Schema, pools),
          { maxKeys: 2 }
        )
      ]
    : []
  return fc
    .tuple(known, ...patterns, ...more)
    .map((parts) => Object.fromEntries(parts.flatMap((part) => Object.entries(part as object))))
}

interface Change {
  at: number
  kind: 'replace' | 'drop' | 'add'
  key: string
  value: unknown
}

const change: fc.Arbitrary<Change> = fc.record({
  at: fc.nat(1_000),
  kind: fc.constantFrom('replace', 'drop', 'add'),
  key: jsonKey,
  value: hostile
})

/** Nearly what the schema allows: one to three members are replaced, left out, or too many. */
export const almostValid = (value: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc
    .tuple(value, fc.array(change, { minLength: 1, maxLength: 3 }))
    .map(([start, changes]) => changes.reduce(changed, start))

function changed(value: unknown, { at, kind, key, value: other }: Change): unknown {
  const copy: unknown = value === undefined ? undefined : JSON.parse(JSON.stringify(value))
  const places: [container: object, key: string][] = []
  const walk = (node: unknown, depth: number): void => {
    if (typeof node !== 'object' || node === null || depth > 8) return
    for (const name of Object.keys(node)) {
      places.push([node, name])
      walk((node as Record<string, unknown>)[name], depth + 1)
    }
  }
  walk(copy, 0)
  const place = places[at % (places.length + 1)]
  if (place === undefined)
    return kind === 'add' && isObject(copy) ? define(copy, key, other) : kind === 'replace' ? other : copy
  const [container, name] = place
  if (kind === 'drop' && !Array.isArray(container)) delete (container as Record<string, unknown>)[name]
  else define(container, kind === 'add' && !Array.isArray(container) ? key : name, other)
  return copy
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** An own member, also under the name `__proto__`. */
function define(container: object, name: string, value: unknown): object {
  return Object.defineProperty(container, name, { value, enumerable: true, writable: true, configurable: true })
}
