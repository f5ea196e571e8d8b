import { ContentBlockSchema } from '@modelcontextprotocol/sdk/types.js'
import type { CallAnswer } from '../../invocations/answer.ts'
import type { JsonObject, JsonValue } from '../../json/lossless.ts'
import { isRecord } from '../../json/plain.ts'
import { stringifyJson } from '../../json/serialize.ts'
import type { JsonSchema } from '../../schema/spec.ts'
import type { ContentBlock } from '../../tools/definition.ts'
import { isWrapped } from './output-schema.ts'

/** Deeper answers are refused: the transport writes them recursively, and so do clients read them. */
const maxDepth = 1_000

/**
 * The answer of a call as the result of `tools/call` (api.md §6). A failure of the tool is a result too, so that the model sees it. What
 * MCP has no word for is in `_meta`: `callId`, `effect`, `retryable` and `code` of a failure, `additionalContexts`, `concludesTurn`.
 */
export function callResult(answer: CallAnswer, output: JsonSchema | undefined): JsonObject {
  const { isError, value, content } = answer
  const result: JsonObject = {
    content: content.map(contentBlock),
    ...(!isError && value !== undefined && { structuredContent: structured(value, output) }),
    ...(isError && { isError: true }),
    _meta: metaOf(answer)
  }
  return isDeeperThan(result, maxDepth) ? tooDeep(answer) : result
}

/** As the list declares it; of a tool that is gone by now, as MCP can carry it. */
function structured(value: JsonValue, output: JsonSchema | undefined): JsonObject {
  const isObject = isRecord(value)
  return isObject && (output === undefined || !isWrapped(output)) ? value : { value }
}

function metaOf({ callId, error, additionalContexts, concludesTurn }: CallAnswer): JsonObject {
  return {
    callId,
    ...(error !== undefined && {
      effect: error.effect,
      retryable: error.retryable,
      ...(error.info !== undefined && { code: error.info.code })
    }),
    ...(additionalContexts !== undefined && { additionalContexts: additionalContexts as unknown as JsonValue }),
    ...(concludesTurn === true && { concludesTurn })
  }
}

/** What is no block of MCP goes as its JSON text: clients refuse a whole result for one block that they do not know. */
function contentBlock(block: ContentBlock): JsonObject {
  const plain = block as JsonObject
  if (block.type === 'text' && typeof plain['text'] === 'string') return { type: 'text', text: plain['text'] }
  return ContentBlockSchema.safeParse(block).success ? plain : { type: 'text', text: stringifyJson(plain) }
}

function tooDeep({ callId }: CallAnswer): JsonObject {
  const text = `Error: the result nests deeper than ${maxDepth} levels, which is more than MCP clients read.`
  return { content: [{ type: 'text', text }], isError: true, _meta: { callId, effect: 'completed', retryable: false } }
}

function isDeeperThan(value: JsonValue, limit: number): boolean {
  let level: JsonValue[] = [value]
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > limit) return true
    level = level.flatMap((item) => (typeof item === 'object' && item !== null ? Object.values(item) : []))
  }
  return false
}
