import type { JsonValue } from '../json/lossless.ts'
import { memberText } from '../json/member-text.ts'
import { unsafeNumberPath } from '../json/parse-body.ts'
import type { ContentBlock } from '../tools/definition.ts'
import { ToolOutputError } from '../tools/output-error.ts'
import type { WireAnswer } from './executor.ts'
import { givenCode, ToolFailedError } from './http-executor-errors.ts'

/** What a `call/result` frame says: a `value`, with `content` if the provider makes that itself, or an `error` (api.md §5). */
interface GivenAnswer {
  readonly value?: JsonValue
  readonly content?: ContentBlock[]
  readonly error?: { readonly message: string; readonly code?: string }
}

const maxMessageCharacters = 10_000

/**
 * The answer in a frame, of which `text` is the JSON; or what the call fails with: the provider's own words and code, or
 * `ToolOutputError` where a number is in it that was rounded (core.md §2.8).
 */
export function readProviderAnswer({ value, content, error }: GivenAnswer, text: string): WireAnswer | Error {
  if (error !== undefined) {
    return new ToolFailedError(givenCode(error.code, 'TOOL_FAILED'), error.message.slice(0, maxMessageCharacters))
  }
  for (const member of ['value', 'content']) {
    const unsafe = unsafeNumberPath(memberText(text, [member]) ?? '')
    if (unsafe === undefined) continue
    return new ToolOutputError(
      `the tool's output is invalid: the integer at ${unsafe.replace('$', member)} is beyond 2^53 - 1`
    )
  }
  return { value: value as JsonValue, ...(content === undefined ? {} : { content }) }
}
