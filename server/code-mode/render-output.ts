import { indentedJson } from '../json/indented.ts'
import type { JsonValue } from '../json/lossless.ts'
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
