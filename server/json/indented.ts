import type { JsonValue } from './lossless.ts'
import { stringifyJson } from './serialize.ts'

const step = '  '
const deepestIndent = 10

/**
 * JSON text indented by two blanks a level up to ten in all, compact below, so that depth cannot blow it up (code-mode.md §2.4).
 * Any depth: it calls itself for the five indented levels at most.
 */
export function indentedJson(value: JsonValue, indent = ''): string {
  const inner = indent + step
  if (typeof value !== 'object' || value === null || inner.length > deepestIndent) return stringifyJson(value)
  const [open, close] = Array.isArray(value) ? '[]' : '{}'
  const lines = Array.isArray(value)
    ? value.map((item) => inner + indentedJson(item, inner))
    : Object.keys(value).map((key) => `${inner}${stringifyJson(key)}: ${indentedJson(value[key]!, inner)}`)
  return lines.length === 0 ? `${open}${close}` : `${open}\n${lines.join(',\n')}\n${indent}${close}`
}
