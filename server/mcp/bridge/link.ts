import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPError } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import {
  ErrorCode,
  McpError,
  type ResultSchema,
  ToolListChangedNotificationSchema
} from '@modelcontextprotocol/sdk/types.js'
import type { JsonObject, JsonValue } from '../../json/lossless.ts'
import { RefusedBodyError } from './bounded-response.ts'
import { AbortError } from '../../errors.ts'
import { ToolOutputError } from '../../tools/output-error.ts'
import { McpBridgeError, SessionExpiredError } from './bridge-error.ts'
import type { LinkTransport } from './link-transport.ts'
import { exceedsDepth, type ListLimits, type RawTool, readTool } from './raw-tool.ts'
import { type Refusal, refusalOf } from './refused-message.ts'

export interface LinkOptions {
  readonly transport: LinkTransport
  /** Ours, as the server is told. */
  readonly version: string
  /** Of the start, and of one page of the list. */
  readonly connectTimeoutMs: number
  /** Aborted when nobody needs the link any more. */
  readonly signal: AbortSignal
  readonly onListChanged: () => void
  /** What may be told of an error: nothing secret, and not too much. */
  readonly tell: (error: unknown) => string
  /** What went wrong beside any request. */
  readonly onError: (error: Error) => void
}

export interface LinkCall {
  readonly timeoutMs: number
  readonly signal: AbortSignal
  readonly onProgress: (text: string) => void
  /** Members of the request's `_meta`. */
  readonly meta?: Readonly<Record<string, string>>
}

/** What the server says of itself, cut. */
export interface ServerInfo {
  readonly name: string
  readonly version: string
}

const maxPages = 1_000
const connectionClosed: number = ErrorCode.ConnectionClosed
const requestTimeout: number = ErrorCode.RequestTimeout
const methodNotFound: number = ErrorCode.MethodNotFound
const maxResultDepth = 200
const maxInfoLength = 200

/**
 * The SDK's own reading of results would drop what it does not know and hold values against schemas: results are taken as they are, and
 * looked at here (backends.md §10). It has the one member that the SDK calls of a schema.
 */
const anyResult = { safeParse: (data: unknown) => ({ success: true, data }) } as unknown as typeof ResultSchema

/** One live connection to a server. Once closed it stays so. */
export class Link {
  readonly closed: Promise<void>
  readonly server: ServerInfo
  readonly #client: Client
  readonly #transport: LinkTransport
  readonly #options: LinkOptions
  #isClosed = false

  private constructor(client: Client, options: LinkOptions, closed: Promise<void>) {
    this.#client = client
    this.#transport = options.transport
    this.#options = options
    this.closed = closed
    void closed.then(() => (this.#isClosed = true))
    const { name = '', version = '' } = client.getServerVersion() ?? {}
    this.server = { name: name.slice(0, maxInfoLength), version: version.slice(0, maxInfoLength) }
  }

  /** Connects and initialises. Rejects with why it did not, and leaves nothing open then. */
  static async open(options: LinkOptions): Promise<Link> {
    const { transport, version, connectTimeoutMs, signal, onListChanged, onError } = options
    signal.throwIfAborted()
    const client = new Client({ name: 'toolwright', version }, { capabilities: {} })
    const closed = new Promise<void>((resolve) => {
      Object.assign(client, { onclose: resolve, onerror: onError })
    })
    client.setNotificationHandler(ToolListChangedNotificationSchema, onListChanged)
    const own = new AbortController()
    const onAbort = (): void => own.abort(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      await client.connect(transport, { timeout: connectTimeoutMs, signal: own.signal })
      return new Link(client, options, closed)
    } catch (error) {
      await transport.end()
      throw error
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Whether the server handed out a session id. */
  get hasSession(): boolean {
    return this.#transport.sessionId !== undefined
  }

  /** All tools, page by page. Rejects with `MCP_INVALID_LIST` where the list breaks a limit, or names a tool twice. */
  async listTools(limits: ListLimits): Promise<RawTool[]> {
    const tools = new Map<string, RawTool>()
    let cursor: string | undefined
    for (let page = 0; ; page += 1) {
      if (page === maxPages) throw invalidList(`it has more than ${maxPages} pages`)
      const result = await this.#list(cursor)
      if (!Array.isArray(result['tools'])) throw invalidList('a page has no tools')
      for (const entry of result['tools']) {
        if (tools.size === limits.maxTools) throw invalidList(`there are more than ${limits.maxTools} tools`)
        const tool = readTool(entry, limits)
        if (tools.has(tool.name)) throw invalidList(`${JSON.stringify(tool.name.slice(0, 100))} is listed twice`)
        tools.set(tool.name, tool)
      }
      const { nextCursor } = result
      // Servers whose encoder leaves nothing out say null or '' for the last page.
      if (nextCursor === undefined || nextCursor === null || nextCursor === '') return [...tools.values()]
      if (typeof nextCursor !== 'string' || nextCursor === cursor) throw invalidList('its cursor leads nowhere')
      cursor = nextCursor
    }
  }

  /** Calls a tool by its own name; what comes back is an object and nothing more is known of it. */
  async call(name: string, args: JsonObject, { meta = {}, ...call }: LinkCall): Promise<JsonObject> {
    const params = { name, arguments: args, ...(Object.keys(meta).length > 0 && { _meta: { ...meta } }) }
    return this.#request({ method: 'tools/call', params }, call)
  }

  /** Closes; false when what belongs to it could not be ended in time. */
  end(): Promise<boolean> {
    return this.#transport.end()
  }

  async #list(cursor: string | undefined): Promise<JsonObject> {
    const params = cursor === undefined ? {} : { cursor }
    const { connectTimeoutMs: timeoutMs, signal } = this.#options
    try {
      return await this.#request({ method: 'tools/list', params }, { timeoutMs, signal })
    } catch (error) {
      // A server that declares no tools may not know the question: it has prompts or resources alone.
      const { cause } = error as Error
      const isUnknown = cause instanceof McpError && cause.code === methodNotFound
      if (isUnknown && this.#client.getServerCapabilities()?.tools === undefined) return { tools: [] }
      throw error
    }
  }

  async #request(
    request: { method: string; params: JsonObject },
    { timeoutMs, signal, onProgress }: Omit<LinkCall, 'onProgress'> & Partial<Pick<LinkCall, 'onProgress'>>
  ): Promise<JsonObject> {
    if (signal.aborted) throw new AbortError()
    // The SDK never takes its listener off again, and would cancel a request that is long answered.
    const own = new AbortController()
    const onAbort = (): void => own.abort(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      const result: unknown = await this.#client.request(request, anyResult, {
        timeout: timeoutMs,
        signal: own.signal,
        ...(onProgress && {
          onprogress: paced(onProgress)
        })
      })
      if (typeof result !== 'object' || result === null || Array.isArray(result))
        throw broken('its result is no object')
      if (exceedsDepth(result as JsonValue, maxResultDepth)) throw refused('too-deep')
      return result as JsonObject
    } catch (error) {
      throw signal.aborted ? new AbortError() : this.#told(error, timeoutMs)
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  /** What the SDK throws, as what it means here. */
  #told(error: unknown, timeoutMs: number): Error {
    if (error instanceof McpBridgeError) return error
    if (error instanceof RefusedBodyError) return refused(error.refusal)
    if (error instanceof StreamableHTTPError) {
      const { code = 0, message } = error
      // 404 by the protocol; some servers answer 400 and say that there is no such session.
      if (this.hasSession && (code === 404 || (code === 400 && /session/i.test(message))))
        return new SessionExpiredError()
      return new McpBridgeError('MCP_ERROR', `the MCP server answered with status ${code}`, { cause: error })
    }
    if (error instanceof McpError) {
      const refusal = refusalOf(error.code)
      if (refusal !== undefined) return refused(refusal)
      if (error.code === connectionClosed && this.#isClosed) return connectionLost(error)
      // The SDK's own, which says so: some servers use the code for something else.
      if (error.code === requestTimeout && Object.hasOwn(Object(error.data), 'timeout')) {
        return new McpBridgeError('MCP_TIMEOUT', `the MCP server did not answer within ${timeoutMs} ms`, {
          cause: error
        })
      }
      return broken(`it answered with an error: ${this.#options.tell(error)}`, error)
    }
    if (this.#isClosed) return connectionLost(error)
    // What parses an answer over HTTP is the SDK's own.
    if (error instanceof SyntaxError || (error as Error).name === 'ZodError')
      return broken('its answer is no message of the protocol')
    const isUnreached = /ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH/.test(codeOf(error))
    return isUnreached
      ? new McpBridgeError('MCP_UNAVAILABLE', `the MCP server is not reached: ${this.#options.tell(error)}`, {
          cause: error,
          effect: 'none'
        })
      : new McpBridgeError(
          'MCP_CONNECTION_LOST',
          `the connection to the MCP server failed: ${this.#options.tell(error)}`,
          { cause: error }
        )
  }
}

const codeOf = (error: unknown): string => {
  const { code, cause } = error as { code?: unknown; cause?: { code?: unknown } }
  return `${String(code)} ${String(cause?.code)}`
}

const connectionLost = (cause: unknown): McpBridgeError =>
  new McpBridgeError('MCP_CONNECTION_LOST', 'the MCP server ended the connection before it answered', { cause })

const broken = (message: string, cause?: unknown): McpBridgeError =>
  new McpBridgeError('MCP_ERROR', `the MCP server: ${message}`, { cause })

const invalidList = (message: string): McpBridgeError =>
  new McpBridgeError('MCP_INVALID_LIST', `the list of tools is not taken: ${message}`)

const refused = (refusal: Refusal): Error => {
  switch (refusal) {
    case 'ended':
      return new McpBridgeError('MCP_CONNECTION_LOST', 'the MCP server ended its answer before it was complete')
    case 'malformed':
      return broken('its answer is no message of the protocol')
    case 'rounded':
      return new ToolOutputError("the tool's output is invalid: an integer in it is beyond 2^53 - 1")
    case 'too-large':
    case 'too-deep':
      return new McpBridgeError('MCP_TOO_LARGE', `the answer of the MCP server is ${refusal.replace('-', ' ')}`)
  }
}

const maxProgressLength = 2_000
const progressIntervalMs = 50

/** Some of what a server tells of a call under way, for people to watch. */
function paced(onProgress: (text: string) => void): (progress: { message?: unknown }) => void {
  let readyAt = 0
  return ({ message }) => {
    if (typeof message !== 'string' || performance.now() < readyAt) return
    readyAt = performance.now() + progressIntervalMs
    onProgress(message.slice(0, maxProgressLength))
  }
}
