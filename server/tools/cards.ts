import { type JsonObject, type JsonValue, snapshot } from '../json/lossless.ts'
import { parseJson } from '../json/parse-text.js'
import { validateValue } from '../schema/validate.ts'
import { callCards, resultCards } from './card-schemas.ts'
import { withVisibleText } from './visible-text.ts'
import type { CallCard, ContentBlock, PresentedResult, ResultCard, ToolDefinition } from './definition.ts'

/** The call that an event belongs to, as its `tool/call` recorded it: `arguments` is the raw string. */
export interface RecordedCall {
  name: string
  arguments: string
}

/**
 * The `view` of a stored event (api.md §4): the card of a `tool/call` or `tool/result`, from the definition visible now. `callOf`
 * finds the recorded call of a `tool/result` by its callId. Undefined is the generic fallback: an unknown tool or call, no
 * presenter, damaged data, a presenter that throws, or a card outside the vocabulary (core.md §28; backends.md §1.1).
 */
export function cardOf(
  event: { readonly type: string; readonly data: JsonValue },
  lookup: (name: string) => ToolDefinition | undefined,
  callOf: (callId: string) => RecordedCall | undefined
): CallCard | ResultCard | undefined {
  const data = recordOf(event.data)
  if (event.type === 'tool/call') {
    if (typeof data.name !== 'string' || typeof data.arguments !== 'string') return undefined
    return callCard(lookup(data.name), data.arguments)
  }
  if (event.type !== 'tool/result') return undefined
  const block = recordOf(arrayOf(recordOf(data.message).content)[0])
  if (typeof block.toolCallId !== 'string') return undefined
  const call = callOf(block.toolCallId)
  if (call === undefined) return undefined
  return resultCard(lookup(call.name), call.arguments, {
    content: arrayOf(block.content) as ContentBlock[],
    isError: block.isError === true,
    ...(Object.hasOwn(data, 'meta') ? { meta: data.meta as JsonValue } : {})
  })
}

/** The card of a call about to run; `rawArguments` is the model's own string. */
export function callCard(definition: ToolDefinition | undefined, rawArguments: string): CallCard | undefined {
  const card = softly(callCards, () => definition?.presentCall?.(argumentsOf(rawArguments)))
  return card === undefined ? undefined : (withVisibleText(card) as CallCard)
}

/** The card of a settled call, from nothing but its arguments and the stored part of its result. */
export function resultCard(
  definition: ToolDefinition | undefined,
  rawArguments: string,
  result: PresentedResult
): ResultCard | undefined {
  return softly(resultCards, () => definition?.presentResult?.(argumentsOf(rawArguments), result)) as
    | ResultCard
    | undefined
}

/** What a raw argument string stands for (core.md §22.1): nothing is `{}`, invalid JSON is the string itself. */
function argumentsOf(raw: string): JsonValue {
  if (raw === '') return {}
  try {
    return snapshot(parseJson(raw))
  } catch {
    return raw
  }
}

function softly(vocabulary: ReadonlyMap<string, JsonObject>, present: () => unknown): JsonObject | undefined {
  try {
    const presented = present()
    if (presented === undefined) return undefined
    // An async presenter is a mistake; its rejection must not become an unhandled one.
    if (presented instanceof Promise) void presented.catch(() => {})
    const card = recordOf(snapshot(presented))
    const schema = vocabulary.get(kindOf(card))
    if (schema === undefined || validateValue(schema, card, 'card').length > 0) return undefined
    // A process ends by code or by signal, never both (backends.md §1.1).
    return card.card === 'terminal' && 'exitCode' in card && 'signal' in card ? undefined : card
  } catch {
    return undefined
  }
}

/** The key of a card's vocabulary entry: search cards are told apart by their shape, web cards by their kind. */
function kindOf(card: JsonObject): string {
  const kind = card.card === 'search' ? card.shape : card.card === 'web' ? card.kind : undefined
  return [card.card, kind].filter((part) => typeof part === 'string').join('/')
}

/** Stored data may be damaged: what is not a record reads as an empty one. */
function recordOf(value: JsonValue | undefined): JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {}
}

const arrayOf = (value: JsonValue | undefined): JsonValue[] => (Array.isArray(value) ? value : [])
