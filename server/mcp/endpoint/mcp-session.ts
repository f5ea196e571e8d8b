import { setImmediate as nextTurn } from 'node:timers/promises'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import {
  CancelledNotificationSchema,
  type JSONRPCRequest,
  type LoggingLevel,
  LoggingLevelSchema,
  type RequestId
} from '@modelcontextprotocol/sdk/types.js'
import type { RequestError } from '../../errors.ts'
import type { EventBus } from '../../events/bus.ts'
import type { Invocations } from '../../invocations/invoke.ts'
import type { JsonObject } from '../../json/lossless.ts'
import type { Scope } from '../../scopes/scope.ts'
import type { Sessions } from '../../sessions/sessions.ts'
import type { ToolDefinition } from '../../tools/definition.ts'
import { callResult } from './call-result.ts'
import { type CallExtra, callRequest, progressTokenOf, traceMetaOf } from './call-params.ts'
import { RecentMessages } from './event-store.ts'
import { fromRequestError, ProtocolError, rpcCodes } from './protocol-error.ts'
import { SessionTransport } from './session-transport.ts'
import { type StreamLimits, Streams } from './streams.ts'
import type { ToolLists } from './tool-lists.ts'

/** The token that a request came with, and which secret of it. */
export interface Owner {
  readonly tokenId: string
  readonly secret?: number
}

export interface McpSessionParts {
  version: string
  sessions: Pick<Sessions, 'open'>
  invocations: Pick<Invocations, 'begin'>
  bus: EventBus
  lists: ToolLists
  definition: (name: string, scope: Scope) => ToolDefinition | undefined
  /** The `trace` of a call, by the members of its `_meta`. */
  incomingTrace: (meta: { traceparent?: string; tracestate?: string }) => unknown
  /** Any error as one that may be shown. */
  toRequestError: (error: unknown) => RequestError
  /** Hears what went wrong inside, and what the transport complains of. */
  onError: (error: unknown) => void
  limits: StreamLimits & { readonly pingIntervalMs: number; readonly maxReplayBytes: number }
}

/**
 * One MCP session: a server and a transport of its own (reliability.md §1.3), and a session of its own in the scope for its calls. Methods
 * are answered in the fallback handler, since the handlers by schema would copy arguments and results and lose keys such as `__proto__`.
 */
export class McpSession {
  readonly id: string
  readonly scope: Scope
  /** Who made it, as it came last: nobody else may use it. */
  owner: Owner
  readonly streams: Streams
  readonly recent: RecentMessages
  readonly transport: SessionTransport
  /** Milliseconds of the monotonic clock. */
  usedAt = performance.now()
  readonly #parts: McpSessionParts
  readonly #server: Server
  readonly #running = new Map<RequestId, AbortController>()
  readonly #answers = new Set<Promise<unknown>>()
  #level: LoggingLevel | undefined
  #fingerprint: string | undefined
  #isOpen = false

  constructor(parts: McpSessionParts, place: { id: string; scope: Scope; owner: Owner }, onClosed: () => void) {
    this.id = place.id
    this.scope = place.scope
    this.owner = place.owner
    this.#parts = parts
    this.streams = new Streams(parts.limits)
    this.recent = new RecentMessages(parts.limits.maxReplayBytes)
    this.transport = new SessionTransport({
      sessionIdGenerator: () => place.id,
      eventStore: this.recent,
      keepAliveMs: parts.limits.pingIntervalMs,
      onsessioninitialized: () => {
        this.#isOpen = true
      }
    })
    this.#server = new Server(
      { name: 'toolwright', version: parts.version },
      { capabilities: { tools: { listChanged: true }, logging: {} }, jsonSchemaValidator: noValidator }
    )
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- the SDK knows no other way
    this.#server.onerror = (error) => parts.onError(error)
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- as above
    this.#server.onclose = () => {
      this.#isOpen = false
      onClosed()
    }
    this.#server.fallbackRequestHandler = (request, extra) => this.#answer(request, extra)
    this.#server.removeRequestHandler('logging/setLevel')
    // Instead of the SDK's own, which knows no request 0 and would leave the stream of a cancelled call open for ever.
    this.#server.setNotificationHandler(CancelledNotificationSchema, ({ params }) => {
      if (params.requestId !== undefined) this.#running.get(params.requestId)?.abort()
    })
  }

  /** Must be awaited before the first request is given to the transport. */
  start(): Promise<void> {
    return this.#server.connect(this.transport)
  }

  /** The client has initialized it, and it has not ended. */
  get isOpen(): boolean {
    return this.#isOpen
  }

  /** Nothing runs and nobody listens. */
  get isIdle(): boolean {
    return this.#answers.size === 0 && this.streams.size === 0
  }

  /** Ends it at once: its calls are aborted and its streams end. */
  close(): Promise<void> {
    return this.#server.close()
  }

  /** Ends it when what runs has been answered. Whoever calls this ends what runs, and takes no more requests. */
  async closeWhenQuiet(): Promise<void> {
    while (this.#answers.size > 0) await Promise.allSettled(this.#answers)
    // The last answer is handed to its stream after its promise has resolved.
    await nextTurn()
    await this.close()
  }

  /** The scope may show other tools by now: tells a client that has asked for them if it does. */
  async noticeChange(): Promise<void> {
    if (!this.#isOpen || this.#fingerprint === undefined) return
    const now = this.#currentFingerprint()
    if (now === this.#fingerprint) return
    this.#fingerprint = now
    try {
      await this.#server.sendToolListChanged()
    } catch (error) {
      this.#parts.onError(error)
    }
  }

  #currentFingerprint(): string {
    try {
      return this.#parts.lists.of(this.scope).fingerprint
    } catch {
      return 'none'
    }
  }

  async #answer(request: JSONRPCRequest, extra: CallExtra): Promise<JsonObject> {
    const answer = this.#dispatch(request, extra)
    this.#answers.add(answer)
    try {
      return await answer
    } catch (error) {
      if (error instanceof ProtocolError) throw error
      const shown = this.#parts.toRequestError(error)
      if (shown.code === 'INTERNAL') this.#parts.onError(error)
      throw fromRequestError(shown)
    } finally {
      this.#answers.delete(answer)
      this.usedAt = performance.now()
    }
  }

  async #dispatch(request: JSONRPCRequest, extra: CallExtra): Promise<JsonObject> {
    switch (request.method) {
      case 'tools/list':
        this.#fingerprint = this.#currentFingerprint()
        return { tools: [...this.#parts.lists.of(this.scope).tools] }
      case 'tools/call':
        return this.#call(request, extra)
      case 'logging/setLevel':
        this.#level = loggingLevel(request)
        return {}
      default:
        throw new ProtocolError(rpcCodes.methodNotFound, 'Method not found')
    }
  }

  async #call(request: JSONRPCRequest, extra: CallExtra): Promise<JsonObject> {
    const { sessions, invocations, definition, incomingTrace } = this.#parts
    const call = callRequest(request, extra)
    const controller = new AbortController()
    const abort = (): void => controller.abort()
    extra.signal.addEventListener('abort', abort, { once: true })
    this.#running.set(request.id, controller)
    let stopTelling = (): void => undefined
    try {
      const session = await sessions.open(this.scope, this.id)
      const by = { tokenId: this.owner.tokenId, scope: this.scope.id }
      const { callId, answer } = invocations.begin({
        ...{ ...call, session, by, trace: incomingTrace(traceMetaOf(request)) },
        caller: callerOf(controller.signal)
      })
      stopTelling = this.#tellProgress(callId, call.name, progressTokenOf(request), extra)
      return callResult(await answer, definition(call.name, this.scope)?.output.schema)
    } finally {
      stopTelling()
      extra.signal.removeEventListener('abort', abort)
      if (this.#running.get(request.id) === controller) this.#running.delete(request.id)
    }
  }

  /** What a running body says goes to the client that asked for it: as progress of its call, as log messages, or both. */
  #tellProgress(callId: string, name: string, token: string | number | undefined, extra: CallExtra): () => void {
    if (token === undefined && !this.#wantsLog) return () => undefined
    let progress = 0
    return this.#parts.bus.subscribe(({ type, data }) => {
      if (type !== 'tool/progress') return
      const { session, callId: of, chunk } = data as { session?: string; callId: string; chunk: unknown }
      // Nobody waits for it: a client that does not read loses some.
      if (session !== this.id || of !== callId || this.streams.isBackedUp) return
      progress += 1
      const message = String(chunk)
      const told: Promise<void>[] = []
      if (token !== undefined) {
        const params = { progressToken: token, progress, message }
        told.push(extra.sendNotification({ method: 'notifications/progress', params }))
      }
      if (this.#wantsLog) {
        const params = { level: 'info' as const, logger: name, data: message }
        told.push(extra.sendNotification({ method: 'notifications/message', params }))
      }
      Promise.all(told).catch((error: unknown) => this.#parts.onError(error))
    })
  }

  /** Output of tools is of the level `info`; a client that has set no level gets none. */
  get #wantsLog(): boolean {
    const levels: readonly string[] = LoggingLevelSchema.options
    return this.#level !== undefined && levels.indexOf(this.#level) <= levels.indexOf('info')
  }
}

function loggingLevel({ params }: JSONRPCRequest): LoggingLevel {
  const level = LoggingLevelSchema.safeParse(params?.['level'])
  if (level.success) return level.data
  throw new ProtocolError(
    rpcCodes.invalidParams,
    `params.level must be one of ${LoggingLevelSchema.options.join(', ')}`
  )
}

/** Cancelled means that who waited has left: over MCP a lost connection does not. */
const callerOf = (cancelled: AbortSignal) => ({
  abortsWhenLeft: true,
  onLeft: (listener: () => void) => {
    if (cancelled.aborted) listener()
    else cancelled.addEventListener('abort', listener, { once: true })
  }
})

/** The SDK would compile one for each session, for elicitations that this server never makes. */
const noValidator = {
  getValidator: () => () => ({ valid: false as const, data: undefined, errorMessage: 'nothing is validated here' })
}
