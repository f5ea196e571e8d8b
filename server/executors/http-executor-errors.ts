import { WebError } from '../backends/web/web.ts'
import { CodedError } from '../errors.ts'

export type HttpToolErrorCode =
  | 'HTTP_TOOL_BLOCKED'
  | 'HTTP_TOOL_UNREACHABLE'
  | 'HTTP_TOOL_DISCONNECTED'
  | 'HTTP_TOOL_TIMEOUT'
  | 'HTTP_TOOL_STATUS'
  | 'HTTP_TOOL_BAD_ANSWER'
  | 'HTTP_TOOL_ANSWER_TOO_LARGE'
  | 'HTTP_TOOL_CREDENTIALS'

/**
 * A call of an HTTP tool came to nothing. `effect` is `none` where nothing of it was sent; all else may have had an effect (api.md §2).
 * Messages name the server and never the whole URL, whose query may hold a key.
 */
export class HttpToolError extends CodedError {
  declare readonly code: HttpToolErrorCode
  readonly effect: 'none' | 'unknown'

  constructor(code: HttpToolErrorCode, message: string, effect: 'none' | 'unknown', options?: ErrorOptions) {
    super(code, message, options)
    this.effect = effect
  }
}

/** What the server of a tool said of a call that it could not do: its own words and its own code (api.md §3). */
export class ToolFailedError extends CodedError {}

/** Codes that tell what this server knows of a call, so that what runs a tool may not use them (core.md §30). */
const reserved = new Set([
  'INVALID_ARGS',
  'UNKNOWN_TOOL',
  'INVALID_TOOL_OUTPUT',
  'ABORTED',
  'ABORTED_BEFORE_DISPATCH',
  'TOOL_TIMEOUT',
  'TOOL_OUTCOME_UNKNOWN',
  'TOOL_NOT_STARTED',
  'PROVIDER_UNAVAILABLE',
  'OVERLOADED'
])

/** The code that a tool's server gave its failure, if it may have it; else `fallback`. */
export function givenCode(code: unknown, fallback: string): string {
  return typeof code === 'string' && /^[A-Z][A-Z0-9_]{0,63}$/.test(code) && !reserved.has(code) ? code : fallback
}

/** What a request that got no whole answer is told as. `isSent`: some of it may have reached the server. */
export function requestError(error: unknown, origin: string, isSent: boolean): HttpToolError {
  if (error instanceof HttpToolError) return error
  const refusal = refusalIn(error)
  if (refusal !== undefined) return new HttpToolError('HTTP_TOOL_BLOCKED', `${origin}: ${refusal.message}`, 'none')
  const reason = reasonOf(error).slice(0, 500)
  return isSent
    ? new HttpToolError('HTTP_TOOL_DISCONNECTED', `${origin} broke off: ${reason}`, 'unknown', { cause: error })
    : new HttpToolError('HTTP_TOOL_UNREACHABLE', `${origin} cannot be reached: ${reason}`, 'none', { cause: error })
}

/** Node gathers the failures of several addresses; a refusal among them tells more than the others. */
function refusalIn(error: unknown): WebError | undefined {
  if (error instanceof WebError && error.code === 'WEB_BLOCKED_URL') return error
  return error instanceof AggregateError ? error.errors.map(refusalIn).find((inner) => inner !== undefined) : undefined
}

function reasonOf(error: unknown): string {
  const { message, code, errors } = error as { message?: string; code?: string; errors?: { message?: string }[] }
  return message || errors?.[0]?.message || code || 'unknown'
}
