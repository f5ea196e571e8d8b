import type { JsonValue } from '../json/lossless.ts'
import { stringifyJson } from '../json/serialize.ts'
import type { ContentBlock } from '../tools/definition.ts'

/** The value of a program that ran to its end; without `result` it returned nothing (code-mode.md §2.1). */
export interface RunOutput {
  logs: string[]
  result?: JsonValue
}

const placeholder = '(run_code completed with no output)'

/** What a model sees of a run that succeeded: the logs and the result in one text block, empty parts left out (code-mode.md §2.3). */
export function renderRunOutput({ logs, result }: RunOutput): ContentBlock[] {
  const returned = result === undefined ? '' : typeof result === 'string' ? result : indentedJson(result)
  const text = [logs.join('\n'), returned].filter((part) => part !== '').join('\n')
  return [{ type: 'text', text: text === '' ? placeholder : text }]
}

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
