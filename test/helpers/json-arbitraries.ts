import * as fc from 'fast-check'
import type { JsonValue } from '../../server/json/lossless.ts'

/** Names that go wrong where names are looked up carelessly, among ordinary ones. */
export const jsonKey = fc.oneof(
  fc.string({ maxLength: 4 }),
  fc.constantFrom('__proto__', 'constructor', 'prototype', 'toString', 'toJSON', 'length', '0', '10', 'a.b', 'ключ')
)

/** Strings of any code units, lone surrogates included. */
export const jsonString = fc.oneof(
  fc.string(),
  fc.string({ unit: 'binary' }),
  fc.constantFrom('\ud800', 'a\udc00b', '"\\', ' ')
)

/** Finite numbers other than -0. */
export const jsonNumber = fc
  .oneof(fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true }))
  .map((number) => (number === 0 ? 0 : number))

/** Lossless JSON values of any shape, a few levels deep; objects with own `__proto__` members among them. */
export const jsonValue: fc.Arbitrary<JsonValue> = fc.letrec<{ value: JsonValue }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.oneof(fc.constant(null), fc.boolean(), jsonNumber, jsonString),
    fc.array(tie('value'), { maxLength: 5 }),
    fc.array(fc.tuple(jsonKey, tie('value')), { maxLength: 5 }).map((entries) => Object.fromEntries(entries))
  )
})).value

/** Nests a value in `depth` arrays, or objects with the one member `key`. */
export function nest(depth: number, leaf: unknown, key?: string): unknown {
  let value = leaf
  for (let level = 0; level < depth; level += 1) value = key === undefined ? [value] : { [key]: value }
  return value
}

/** Counts the containers around the innermost value of what `nest` built. */
export function depthOf(value: unknown): number {
  let depth = 0
  for (let at = value; typeof at === 'object' && at !== null; at = Object.values(at)[0]) depth += 1
  return depth
}
