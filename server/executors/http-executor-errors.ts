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
 * Messages are for the agent, which is to know no address of it: what the operators' log says besides is the `cause`.
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
  'CODE_RUN_FAILED',
  'SPAWN_FAILED',
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

const reservedFamilies = /^(COMMAND|HTTP_TOOL|MCP)_/

/** The code that a tool's server gave its failure, if it may have it; else `fallback`. */
export function givenCode(code: unknown, fallback: string): string {
  const isOne = typeof code === 'string' && /^[A-Z][A-Z0-9_]{0,63}$/.test(code)
  return isOne && !reserved.has(code) && !reservedFamilies.test(code) ? code : fallback
}

/** The tool is where no tool may be, as the configuration has it now. */
export const blocked = (cause: Error): HttpToolError =>
  new HttpToolError('HTTP_TOOL_BLOCKED', 'the tool is at an address that tools may not be at', 'none', { cause })

/** What a request that got no whole answer is told as. `isSent`: some of it may have reached the server. */
export function requestError(error: unknown, isSent: boolean): HttpToolError {
  if (error instanceof HttpToolError) return error
  const refusal = refusalIn(error)
  if (refusal !== undefined) return blocked(refusal)
  const reason = reasonOf(error).slice(0, 500)
  const [code, what, effect] = isSent
    ? (['HTTP_TOOL_DISCONNECTED', 'broke off', 'unknown'] as const)
    : (['HTTP_TOOL_UNREACHABLE', 'cannot be reached', 'none'] as const)
  return new HttpToolError(code, `the tool’s server ${what}: ${reason}`, effect, { cause: error })
}

/** Node gathers the failures of several addresses; a refusal among them tells more than the others. */
function refusalIn(error: unknown): WebError | undefined {
  if (error instanceof WebError && error.code === 'WEB_BLOCKED_URL') return error
  return error instanceof AggregateError ? error.errors.map(refusalIn).find((inner) => inner !== undefined) : undefined
}

/** The system's and TLS's own messages name hosts and addresses, as does the one of a connection that took too long; the HTTP client's do not. */
function reasonOf(error: unknown): string {
  const { message, code } = error as { message?: string; code?: string }
  const isOfClient = code?.startsWith('UND_ERR_') === true && code !== 'UND_ERR_CONNECT_TIMEOUT'
  return (isOfClient ? message : code) || 'unknown'
}
