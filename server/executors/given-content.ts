import { type JsonValue, snapshot } from '../json/lossless.ts'
import { stringifyJson } from '../json/serialize.ts'
import type { ContentBlock, ToolDefinition } from '../tools/definition.ts'
import { ToolOutputError } from '../tools/output-error.ts'
import type { WireAnswer } from './executor.ts'

type Finalize = NonNullable<ToolDefinition['finalizeContent']>
type Execution = Parameters<Finalize>[0]
type Result = Parameters<Finalize>[1]

/**
 * The content that executors give beside their values. A tool's rendering makes the content from the value alone, so the given one
 * takes its place at the very end, and only where neither value nor content was replaced meanwhile (backends.md §10, Projection). The
 * execution object is one and the same through all stages (core.md §15.1), and what is kept for it goes with it.
 */
export class GivenContent {
  readonly #kept = new WeakMap<Execution, { value: JsonValue; content: ContentBlock[] }>()
  readonly #render: (value: JsonValue) => ContentBlock[]

  /** `render` is the rendering that the given content is to stand in for. */
  constructor(render: (value: JsonValue) => ContentBlock[]) {
    this.#render = render
  }

  /** Throws `ToolOutputError` for content that is not lossless, or not an array of blocks. A later attempt at the same call replaces an earlier one. */
  keep(exec: Execution, { value, content }: WireAnswer): void {
    this.#kept.delete(exec)
    if (content === undefined) return
    let copy: JsonValue
    try {
      copy = snapshot(content)
    } catch (error) {
      throw new ToolOutputError("the tool's output is invalid: content must be lossless JSON", { cause: error })
    }
    if (!isContent(copy)) {
      throw new ToolOutputError("the tool's output is invalid: content must be an array of content blocks")
    }
    this.#kept.set(exec, { value, content: copy })
  }

  /** The content to put in place of the result's, once; undefined to leave that. */
  apply(exec: Execution, result: Result): ContentBlock[] | undefined {
    const kept = this.#kept.get(exec)
    if (kept === undefined) return undefined
    this.#kept.delete(exec)
    if (result.isError) return undefined
    const isAsGiven =
      sameJson(result.value, kept.value) && sameJson(result.content as ContentBlock[], this.#render(result.value))
    return isAsGiven ? kept.content : undefined
  }
}

const sameJson = (a: JsonValue, b: JsonValue): boolean => stringifyJson(a) === stringifyJson(b)

function isContent(content: unknown): content is ContentBlock[] {
  return (
    Array.isArray(content) &&
    content.every((block: unknown) => {
      if (typeof block !== 'object' || block === null || Array.isArray(block)) return false
      const { type, text } = block as Record<string, unknown>
      return typeof type === 'string' && (type !== 'text' || typeof text === 'string')
    })
  )
}
