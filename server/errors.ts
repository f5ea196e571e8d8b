/**
 * Every error code of the wire, its HTTP status and its default message (api.md §8). The docs and the API description are
 * written from this table, and a test holds them to it. Codes that appear only inside a tool result have no status.
 */
export const errorTable = {
  // The request itself is at fault.
  BAD_REQUEST: { status: 400, message: 'The request is malformed.' },
  BAD_JSON: { status: 400, message: 'The body is not acceptable JSON.' },
  INVALID_ARGS: { status: 400, message: 'The arguments do not match what the tool declares.' },
  TOKEN_IN_URL: { status: 400, message: 'A token never belongs in a URL; send it in the Authorization header.' },
  UNAUTHENTICATED: { status: 401, message: 'A valid token is needed.' },
  HOST_NOT_ALLOWED: { status: 403, message: 'This Host is not allowed.' },
  ORIGIN_NOT_ALLOWED: { status: 403, message: 'This Origin is not allowed.' },
  FORBIDDEN: { status: 403, message: 'This token may not do that.' },
  NOT_FOUND: { status: 404, message: 'There is nothing here.' },
  UNKNOWN_SCOPE: { status: 404, message: 'There is no such scope.' },
  UNKNOWN_SESSION: { status: 404, message: 'There is no such session.' },
  UNKNOWN_CALL: { status: 404, message: 'There is no such call.' },
  UNKNOWN_PRESET: { status: 404, message: 'There is no such preset.' },
  UNKNOWN_TERMINAL: { status: 404, message: 'There is no such terminal.' },
  UNKNOWN_JOB: { status: 404, message: 'There is no such job.' },
  UNKNOWN_MCP_SERVER: { status: 404, message: 'There is no such MCP server.' },
  UNKNOWN_APPROVAL: { status: 404, message: 'There is no such approval.' },
  METHOD_NOT_ALLOWED: { status: 405, message: 'This method is not allowed here.' },
  NOT_ACCEPTABLE: { status: 406, message: 'No representation that the client accepts.' },
  CALL_CONFLICT: { status: 409, message: 'This callId was used for another call.' },
  ALREADY_DECIDED: { status: 409, message: 'This approval is already decided.' },
  APPROVAL_STALE: { status: 409, message: 'What was asked about is no longer what would run.' },
  DUPLICATE_TOOL: { status: 409, message: 'A tool of this name is already registered there.' },
  PROVIDER_TAKEN: { status: 409, message: 'This provider is another token’s.' },
  MCP_SERVER_FIXED: { status: 409, message: 'This MCP server is the configuration’s.' },
  SCOPE_PARENT_FIXED: { status: 409, message: 'The parent of a scope cannot change.' },
  SESSION_FIXED: { status: 409, message: 'The scope and the directory of a session cannot change.' },
  CODE_RUNTIME_MISSING: { status: 409, message: 'This mode needs a code runtime, and none is mounted.' },
  SANDBOX_MISSING: { status: 409, message: 'Nothing is confined on this server.' },
  SANDBOX_IN_USE: { status: 409, message: 'The sandbox mode cannot change while a terminal runs under it.' },
  TERMINAL_REFUSED: { status: 409, message: 'The terminal does not take this.' },
  STEP_CLOSED: { status: 409, message: 'This step is closed.' },
  TURN_CLOSED: { status: 409, message: 'This turn is not open.' },
  TURN_BUSY: { status: 409, message: 'Calls of this turn are still running.' },
  CURSOR_EXPIRED: { status: 410, message: 'The events after this cursor are no longer kept.' },
  LOG_RESET: { status: 409, message: 'The cursor belongs to another log.' },
  BODY_TOO_LARGE: { status: 413, message: 'The body is too large.' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, message: 'Bodies are application/json, without content encoding.' },
  UNSUPPORTED_SCHEMA: { status: 422, message: 'The schema is not supported.' },
  INVALID_DEFINITION: { status: 422, message: 'The definition is not valid.' },
  RATE_LIMITED: { status: 429, message: 'A limit is reached; try again later.' },
  // The server is at fault, or busy.
  INTERNAL: { status: 500, message: 'Something went wrong inside the server.' },
  OVERLOADED: { status: 503, message: 'The server is at its limit; try again later.' },
  SHUTTING_DOWN: { status: 503, message: 'The server is shutting down.' },
  STORE_UNAVAILABLE: { status: 503, message: 'The event log cannot store anything right now.' },
  LOG_CORRUPT: { status: 503, message: 'This part of the event log is damaged.' }
} as const satisfies Record<string, { status: number; message: string }>

export type ErrorCode = keyof typeof errorTable

/** A fault of a request: its code is a row of the table. `details` is JSON for the client, `headers` go on the answer. */
export class RequestError extends Error {
  override readonly name = 'RequestError'
  readonly code: ErrorCode
  readonly status: number
  readonly details: unknown
  readonly headers: Readonly<Record<string, string>>

  constructor(
    code: ErrorCode,
    message: string = errorTable[code].message,
    more: { details?: unknown; headers?: Record<string, string>; cause?: unknown } = {}
  ) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause })
    this.code = code
    this.status = errorTable[code].status
    this.details = more.details
    this.headers = more.headers ?? {}
  }
}

/**
 * The base of every error that a tool result may name: only these yield `error.info` (core.md §12.7, §30). `name` is the
 * class's own name, `code` is UPPER_SNAKE.
 */
export class CodedError extends Error {
  readonly code: string

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = new.target.name
    this.code = code
  }
}

/** The caller gave the call up (core.md §30). `effect` is there where what was to run never did (api.md §2). */
export class AbortError extends CodedError {
  readonly effect?: 'none'

  constructor({ effect }: { effect?: 'none' } = {}) {
    super('ABORTED', 'tool call aborted')
    if (effect !== undefined) this.effect = effect
  }
}
