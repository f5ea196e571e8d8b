import type { JsonValue } from './lossless.ts'
import { writeJson } from './serialize.ts'

/**
 * JSON text that is the same for equal values: members sorted by code unit at every depth, arrays in their order, own
 * `__proto__` keys kept (core.md §26). Iterative.
 */
export function canonicalJson(value: JsonValue): string {
  return writeJson(value, (object) => Object.keys(object).sort())
}
