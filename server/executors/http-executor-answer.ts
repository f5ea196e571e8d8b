import { isJsonObject, type JsonValue } from '../json/lossless.ts'
import { unsafeNumberPath } from '../json/parse-body.ts'
import { JsonTextError, parseJson } from '../json/parse-text.js'
import { ownValue } from '../json/plain.ts'
import type { ContentBlock } from '../tools/definition.ts'
import { ToolOutputError } from '../tools/output-error.ts'
import type { WireAnswer } from './executor.ts'
import { badAnswer, type ToolAnswer } from './http-executor-exchange.ts'
import { givenCode, HttpToolError, ToolFailedError } from './http-executor-errors.ts'

/** As deep as what comes in over the wire may be (api.md §8). */
const maxDepth = 256
const maxMessageCharacters = 10_000

/** What the server of a tool answered to a call: `{ value, content? }`, or `{ error: { message, code? } }` (api.md §3). Throws for the latter. */
export function readToolAnswer({ statusCode, headers, body }: ToolAnswer): WireAnswer {
  const isSuccess = statusCode >= 200 && statusCode < 300
  if (!isSuccess) {
    const error = errorIn(lenientJson(headers['content-type'], body))
    const told = error === undefined ? '' : `: ${error.message}`
    if (error !== undefined && statusCode >= 400) {
      throw new ToolFailedError(givenCode(error.code, 'HTTP_TOOL_STATUS'), `status ${statusCode}${told}`)
    }
    throw statusError(statusCode, headers.location !== undefined && statusCode < 400)
  }
  const answer = readJson(headers['content-type'], body)
  if (!isJsonObject(answer)) throw badAnswer('it is no object')
  const error = errorIn(answer)
  if (error !== undefined && !Object.hasOwn(answer, 'value')) {
    throw new ToolFailedError(givenCode(error.code, 'TOOL_FAILED'), error.message)
  }
  if (Object.hasOwn(answer, 'error')) throw badAnswer('"error" is no { message }, or stands beside a "value"')
  if (!Object.hasOwn(answer, 'value')) throw badAnswer('it has neither a "value" nor an "error"')
  const content = ownValue(answer, 'content')
  return {
    value: answer['value'] as JsonValue,
    // Blocks that are none are refused where content of all executors is (`INVALID_TOOL_OUTPUT`).
    ...(content !== undefined && { content: content as ContentBlock[] })
  }
}

export const statusError = (statusCode: number, isRedirect: boolean, told = ''): HttpToolError => {
  const why = isRedirect ? ', a redirect, which is not followed' : ''
  return new HttpToolError(
    'HTTP_TOOL_STATUS',
    `the tool’s server answered with status ${statusCode}${why}${told}`,
    'unknown'
  )
}

/**
 * Reads a body that says it is JSON. Throws HTTP_TOOL_BAD_ANSWER, or `ToolOutputError` where a number is in it that would be rounded
 * (core.md §2.8).
 */
export function readJson(contentType: string | undefined, body: Buffer): JsonValue {
  if (!isJson(contentType)) throw badAnswer(`it is ${typeName(contentType)}, not JSON`)
  const text = readUtf8(body)
  if (text === undefined) throw badAnswer('it is not UTF-8')
  let value: JsonValue
  try {
    value = parseJson(text, { maxDepth })
  } catch (error) {
    if (error instanceof JsonTextError) throw badAnswer(error.message)
    throw error
  }
  const unsafe = unsafeNumberPath(text)
  if (unsafe === undefined) return value
  throw new ToolOutputError(`the tool's output is invalid: the integer at ${unsafe} is beyond 2^53 - 1`)
}

/** `application/json` and `application/…+json`, in UTF-8 if a charset is named. */
export function isJson(contentType: string | undefined): boolean {
  const [type = '', ...parameters] = (contentType ?? '').toLowerCase().split(';')
  if (!/^application\/([\w.!#$&^-]+\+)?json$/.test(type.trim())) return false
  const charset = parameters.map((parameter) => /^\s*charset\s*=\s*"?([^"\s]*)/.exec(parameter)?.[1]).find(Boolean)
  return charset === undefined || charset === 'utf-8' || charset === 'utf8'
}

export const typeName = (contentType: string | undefined): string =>
  contentType === undefined ? 'of no stated type' : JSON.stringify(contentType.slice(0, 100))

/** The text of a body; undefined for what is not UTF-8. */
export function readUtf8(body: Buffer): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(body)
  } catch {
    return undefined
  }
}

/** What went wrong is in the status; the body may say more of it, or be nothing of ours at all. */
function lenientJson(contentType: string | undefined, body: Buffer): JsonValue | undefined {
  const text = isJson(contentType) ? readUtf8(body) : undefined
  if (text === undefined) return undefined
  try {
    return parseJson(text, { maxDepth })
  } catch {
    return undefined
  }
}

function errorIn(answer: JsonValue | undefined): { message: string; code: unknown } | undefined {
  const error = isJsonObject(answer) ? ownValue(answer, 'error') : undefined
  if (typeof error !== 'object' || error === null) return undefined
  const message = ownValue(error, 'message')
  if (typeof message !== 'string') return undefined
  return { message: message.slice(0, maxMessageCharacters), code: ownValue(error, 'code') }
}
