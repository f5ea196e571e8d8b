import { CodedError } from '../errors.ts'
import { deepFreeze } from '../json/deep-freeze.ts'
import { type JsonValue, snapshot } from '../json/lossless.ts'
import type { ContentBlock, UserMessage } from '../tools/definition.ts'
import type { InFlight, StoppedAt } from './execution.ts'

/** A tool's success (core.md §1). Absent members are absent, never `undefined`; `meta: null` is a present value. */
export interface Success {
  readonly isError: false
  readonly value: JsonValue
  readonly content: readonly ContentBlock[]
  readonly meta?: JsonValue
  readonly additionalContexts?: readonly UserMessage[]
  readonly concludesTurn?: true
}

/** Names a coded error inside a result (core.md §30). */
export interface ErrorInfo {
  readonly name: string
  readonly code: string
}

/** A tool's failure (core.md §1). `info` exists only for coded errors. */
export interface Failure {
  readonly isError: true
  readonly error: { readonly message: string; readonly info?: ErrorInfo }
  readonly content: readonly ContentBlock[]
  readonly meta?: JsonValue
  readonly additionalContexts?: readonly UserMessage[]
}

export type ToolResult = Success | Failure

/** What is known of a failed call's side effect (api.md §2). */
export type Effect = 'none' | 'unknown' | 'completed'

/** A frozen failure whose content is `Error: ` and the message, as that of every failure but a block's (core.md §16). */
export function failure(message: string, info?: ErrorInfo): Failure {
  return deepFreeze<Failure>({
    isError: true,
    error: info === undefined ? { message } : { message, info: { name: info.name, code: info.code } },
    content: [{ type: 'text', text: `Error: ${message}` }]
  })
}

export const unknownTool = (name: string): Failure =>
  failure(`unknown tool "${name}"`, { name: 'ToolNotFoundError', code: 'UNKNOWN_TOOL' })

export const invalidOutput = (message: string): Failure =>
  failure(message, { name: 'ToolOutputError', code: 'INVALID_TOOL_OUTPUT' })

/** The failure that a throw stands for: only a coded error yields `info` (core.md §12.7). */
export const failureFrom = (thrown: unknown): Failure => failure(messageOf(thrown), infoOf(thrown))

/** The message of anything thrown. Total: a value that cannot be inspected yields a fixed text (core.md §12.7). */
export function messageOf(thrown: unknown): string {
  try {
    if (typeof thrown === 'object' && thrown !== null && 'message' in thrown) {
      const { message } = thrown
      if (typeof message === 'string') return message
    }
    return String(thrown)
  } catch {
    return 'a value was thrown that cannot be inspected'
  }
}

function infoOf(thrown: unknown): ErrorInfo | undefined {
  try {
    if (!(thrown instanceof CodedError)) return undefined
    const { name, code } = thrown
    return typeof name === 'string' && typeof code === 'string' ? { name, code } : undefined
  } catch {
    return undefined
  }
}

/** Records where a call stopped, first cause first, and that its failure needs no further copy. */
export function fail(call: InFlight, stoppedAt: StoppedAt, result: Failure): Failure {
  call.stoppedAt ??= stoppedAt
  call.sealed = result
  return result
}

/** True for an array of objects that each name their type (core.md §12.5, §14.4). */
export const isContent = (value: unknown): value is ContentBlock[] =>
  Array.isArray(value) &&
  value.every((block: unknown) => isObject(block) && !Array.isArray(block) && typeof block['type'] === 'string')

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null

/** Keeps a promise that nobody will await from ending the process when it rejects. */
export function disown(value: unknown): void {
  if (isObject(value) && typeof value['then'] === 'function') Promise.resolve(value).catch(() => {})
}

/**
 * A lossless, deeply frozen copy of a result (core.md §14.1). A success's value is frozen already and stays the same object.
 * Throws when some part is not lossless JSON, or content is not an array of blocks.
 */
export function sealedCopy(result: ToolResult): ToolResult {
  const value = result.isError ? undefined : result.value
  const parts: Record<string, unknown> = { ...result }
  delete parts['value']
  const copy = snapshot(parts) as Record<string, JsonValue>
  if (!isContent(copy['content'])) throw new TypeError('content must be an array of blocks')
  deepFreeze(copy)
  if (value === undefined) return copy as unknown as Failure
  const { isError, ...rest } = copy
  return Object.freeze({ isError, value, ...rest }) as unknown as Success
}

/** Freezes a result before hooks see it (core.md §12.13). What is not lossless goes on as it is, and fails at core.md §14.1. */
export function seal(call: InFlight, result: ToolResult): ToolResult {
  if (result === call.sealed) return result
  try {
    return (call.sealed = sealedCopy(result))
  } catch {
    return result
  }
}

/** The result with these contexts after its own; the same object when there are none. */
export function withContexts(
  result: ToolResult,
  before: readonly UserMessage[] | undefined,
  after: readonly UserMessage[] | undefined
): ToolResult {
  if (before === undefined && after === undefined) return result
  return { ...result, additionalContexts: [...(before ?? []), ...(result.additionalContexts ?? []), ...(after ?? [])] }
}
