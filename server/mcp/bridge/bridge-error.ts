import { AbortError, CodedError } from '../../errors.ts'

/** What a call of a bridged tool may fail with (docs/mcp.md). */
export type BridgeErrorCode =
  | 'MCP_UNAVAILABLE'
  | 'MCP_CONNECTION_LOST'
  | 'MCP_TIMEOUT'
  | 'MCP_TOOL_FAILED'
  | 'MCP_ERROR'
  | 'MCP_TOO_LARGE'
  | 'MCP_INVALID_LIST'
  | 'MCP_TASK_REQUIRED'
  | 'OVERLOADED'

/** What became of a call to an MCP server, or of a reading of its tools (backends.md §10). */
export class McpBridgeError extends CodedError {
  /** The server was not asked at all. */
  readonly effect?: 'none'

  constructor(code: BridgeErrorCode, message: string, options: ErrorOptions & { effect?: 'none' } = {}) {
    super(code, message, options)
    if (options.effect !== undefined) this.effect = options.effect
  }
}

/** What a promise comes to, but no longer than the caller waits: an abort rejects with `AbortError`. */
export async function unlessAborted<T>(signal: AbortSignal, promise: Promise<T>): Promise<T> {
  let onAbort = (): void => {}
  const aborted = new Promise<never>((_resolve, reject) => {
    onAbort = () => reject(new AbortError())
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
  })
  try {
    return await Promise.race([promise, aborted])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

/** The message of anything that was thrown, cut: what a server says may be long. */
export function briefly(thrown: unknown, maxLength = 500): string {
  const message = thrown instanceof Error ? messageOf(thrown) : String(thrown)
  return message.length > maxLength ? `${message.slice(0, maxLength)}…` : message
}

/** Fetch says `fetch failed`, and why in its cause. */
function messageOf({ message, cause }: Error): string {
  return cause instanceof Error && message === 'fetch failed' ? `${message}: ${cause.message}` : message
}

/** The server knows the session no more: nothing was run, and a new session may (F53). */
export class SessionExpiredError extends Error {}
