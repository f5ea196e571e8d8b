import type { JsonObject, JsonValue } from '../json/lossless.ts'
import type { Effect, Failure, ToolResult } from '../pipeline/result.ts'
import type { ContentBlock, UserMessage } from '../tools/definition.ts'

/** A failure as an answer carries it: with what is known of its side effect (api.md §2). */
export interface AnsweredError {
  message: string
  info?: { name: string; code: string }
  effect: Effect
  retryable: boolean
}

/** What `POST /invoke` answers (api.md §2). Members that do not apply are absent. Times are epoch ms, durations ms. */
export interface CallAnswer {
  callId: string
  name: string
  scope: string
  session: string
  callSeq: number
  resultSeq: number
  startedAt: number
  durationMs: number
  isError: boolean
  value?: JsonValue
  error?: AnsweredError
  content: readonly ContentBlock[]
  meta?: JsonValue
  additionalContexts?: readonly UserMessage[]
  concludesTurn?: true
  replayed?: true
}

/** The part of an outcome that the `tool/result` event does not hold; stored with the call, for replay (core.md §23). */
export interface StoredOutcome {
  value?: JsonValue
  error?: AnsweredError
  additionalContexts?: readonly UserMessage[]
  concludesTurn?: true
}

export function storedOutcome(result: ToolResult, failure: { effect: Effect; retryable: boolean }): StoredOutcome {
  return {
    ...(result.isError ? { error: answeredError(result.error, failure) } : { value: result.value }),
    ...(result.additionalContexts === undefined ? {} : { additionalContexts: result.additionalContexts }),
    ...(!result.isError && result.concludesTurn === true ? { concludesTurn: true } : {})
  }
}

function answeredError(error: Failure['error'], failure: { effect: Effect; retryable: boolean }): AnsweredError {
  return { message: error.message, ...(error.info === undefined ? {} : { info: error.info }), ...failure }
}

/** The data of a `tool/result` event (core.md §23): neither value nor contexts, and `error` only where a code exists. */
export function resultEventData(
  place: { turn: number; step: number; callId: string; messageId: string },
  result: Pick<ToolResult, 'isError' | 'content' | 'meta'> & { error?: Failure['error'] }
): JsonObject {
  const block = {
    type: 'tool-result',
    toolCallId: place.callId,
    content: result.content as unknown as JsonValue,
    isError: result.isError
  }
  return {
    turn: place.turn,
    step: place.step,
    message: { id: place.messageId, role: 'user', source: { kind: 'tool', callId: place.callId }, content: [block] },
    ...(result.error?.info === undefined ? {} : { error: { ...result.error.info } }),
    ...(result.meta === undefined ? {} : { meta: result.meta })
  }
}

/** Reads content and meta back from a `tool/result` event's data. */
export function readResultEvent(data: JsonValue): { isError: boolean; content: ContentBlock[]; meta?: JsonValue } {
  const { message, meta } = data as {
    message: { content: [{ isError: boolean; content: ContentBlock[] }] }
    meta?: JsonValue
  }
  const [block] = message.content
  return { isError: block.isError, content: block.content, ...(meta === undefined ? {} : { meta }) }
}
