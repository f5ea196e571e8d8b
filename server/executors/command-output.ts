import type { JsonValue } from '../json/lossless.ts'
import { unsafeNumberPath } from '../json/parse-body.ts'
import { JsonTextError, parseJson } from '../json/parse-text.js'
import { ToolOutputError } from '../tools/output-error.ts'

/**
 * The one JSON value that a command wrote (api.md §3). Throws `ToolOutputError`, also where a number is in it that would be rounded
 * (core.md §2.8).
 */
export function readCommandOutput(bytes: Uint8Array): JsonValue {
  const text = utf8(bytes)
  if (text.trim() === '') throw wrong('the command wrote nothing to standard output, which has to be one JSON value')
  const value = valueOf(text)
  const unsafe = unsafeNumberPath(text)
  if (unsafe !== undefined) throw wrong(`the integer at ${unsafe} is beyond 2^53 - 1`)
  return value
}

function utf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    throw wrong('the command wrote what is not UTF-8', error)
  }
}

function valueOf(text: string): JsonValue {
  try {
    return parseJson(text)
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error
    throw wrong('the command wrote something else than one JSON value', error)
  }
}

const wrong = (text: string, cause?: unknown): ToolOutputError =>
  new ToolOutputError(`the tool's output is invalid: ${text}`, { cause })
