import { text } from '../../server/authoring/content.ts'
import type { Execution } from '../../server/pipeline/execution.ts'
import type { ToolResult } from '../../server/pipeline/result.ts'
import type { ContentBlock } from '../../server/tools/definition.ts'
import { keepHead } from './terminal-text.ts'

export const sessionId = {
  type: 'string',
  required: true,
  description: 'The id of the terminal, as pty-1.'
} as const

export const terminalStatus = {
  oneOf: [
    {
      type: 'object',
      additionalProperties: false,
      properties: { kind: { type: 'string', const: 'running', required: true } }
    },
    {
      type: 'object',
      additionalProperties: false,
      properties: {
        kind: { type: 'string', const: 'exited', required: true },
        exitCode: { oneOf: [{ type: 'integer' }, { type: 'null' }], required: true },
        signal: { oneOf: [{ type: 'string' }, { type: 'null' }], required: true }
      }
    }
  ]
} as const

/** Terminals belong to agents: the exact object is what counts (backends.md §5.1). */
export function agentOf({ agent }: Execution): NonNullable<Execution['agent']> {
  if (agent === undefined) throw new Error('terminals belong to a session, and this call has none')
  return agent
}

/** Whatever a result came from, an error or a refusal too, its text keeps to the limit (backends.md §5.3). */
export const finalizeWithin =
  (maxBytes: number) =>
  (_exec: Execution, { content }: ToolResult): ContentBlock[] | undefined => {
    const [block, ...more] = content
    if (block?.type !== 'text' || typeof block['text'] !== 'string' || more.length > 0) return undefined
    const kept = keepHead(block['text'], maxBytes)
    return kept === block['text'] ? undefined : text(kept)
  }
