import { AsyncLocalStorage } from 'node:async_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { FetchLike } from '@modelcontextprotocol/sdk/shared/transport.js'
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'
import { type Agent, fetch as undiciFetch } from 'undici'
import { boundedResponse } from './bounded-response.ts'
import type { LinkTransport } from './link-transport.ts'
import type { MessagePace } from './message-pace.ts'
import type { Sealed } from './server-definition.ts'

/** The end of a session is told to its server, but not waited for longer. */
const goodbyeMs = 2_000
/** Between two openings of one stream: a server can ask for it to be taken up again at once, for ever. */
const streamPauseMs = 1_000
/** Longest wait between two attempts to have the stream of notices again. */
const maxStreamPauseMs = 30_000

/** The message whose sending a request of the SDK belongs to: an answer is taken up again under it, the notices under `initialized`. */
interface Sending {
  readonly id: number | string | undefined
  readonly isCall: boolean
  streamOpenedAt: number
}

export interface HttpTransportOptions {
  readonly url: URL
  readonly headers: Readonly<Record<string, Sealed>>
  readonly agent: Agent
  /** Of one message. */
  readonly maxMessageBytes: number
  readonly pace: MessagePace
  /** After which a response that nobody waits for any more is let go. */
  readonly responseTimeoutMs: number
  /** The stream of notices had broken off: what the server told meanwhile is lost. */
  readonly onNoticesMissed: () => void
}

/**
 * The SDK's streamable HTTP, with limits. Redirects are followed within the origin of the URL alone, which an admin named and which may
 * be an address of this machine (backends.md D7); nothing else that a server names is ever opened.
 */
export class HttpTransport extends StreamableHTTPClientTransport implements LinkTransport {
  readonly #options: HttpTransportOptions
  readonly #underway = new Map<number | string, AbortController>()
  readonly #sending: AsyncLocalStorage<Sending>
  #hasNotices = false
  #end: Promise<boolean> | undefined

  constructor(options: HttpTransportOptions) {
    const sending = new AsyncLocalStorage<Sending>()
    const doFetch: FetchLike = (url, init = {}) => {
      const of = sending.getStore()
      // The SDK would send it under a signal that is aborted by then, and the server keep a session that nobody has.
      if (init.method === 'DELETE')
        return this.#fetch(url, { ...init, signal: AbortSignal.timeout(goodbyeMs) }, undefined)
      if (init.method !== 'GET' || of === undefined) return this.#fetch(url, init, of)
      return of.id === undefined ? this.#openNotices(url, init, of) : this.#openStream(url, init, of)
    }
    const headers = Object.entries(options.headers).map(([name, value]) => [name, value.reveal()])
    super(options.url, { fetch: doFetch, requestInit: { headers: Object.fromEntries(headers) } })
    this.#options = options
    this.#sending = sending
  }

  override async send(
    message: JSONRPCMessage,
    options?: Parameters<StreamableHTTPClientTransport['send']>[1]
  ): Promise<void> {
    const id = 'method' in message && 'id' in message ? message.id : undefined
    const isCall = 'method' in message && message.method === 'tools/call'
    try {
      await this.#sending.run({ id, isCall, streamOpenedAt: -Infinity }, () => super.send(message, options))
    } finally {
      const cancelled = 'method' in message && message.method === 'notifications/cancelled'
      // Told or not, nobody waits for that answer any more.
      if (cancelled) this.#underway.get(message.params?.['requestId'] as number)?.abort()
    }
  }

  end(): Promise<boolean> {
    this.#end ??= this.#sayGoodbye()
    return this.#end
  }

  async #fetch(url: string | URL, init: RequestInit, of: Sending | undefined): Promise<Response> {
    const { agent, maxMessageBytes, pace } = this.#options
    const { id, isCall = false } = of ?? {}
    const answer = id === undefined ? undefined : this.#answerOf(id, init.signal ?? undefined)
    const onEnd = (): void => answer?.release()
    try {
      const signal = answer === undefined ? {} : { signal: answer.signal }
      const response = await undiciFetch(url, { ...(init as object), ...signal, dispatcher: agent })
      const answers = typeof id === 'number' ? id : undefined
      return boundedResponse(response, { maxMessageBytes, pace, answers, isCall, onEnd })
    } catch (error) {
      onEnd()
      throw error
    }
  }

  async #openStream(url: string | URL, init: RequestInit, of: Sending): Promise<Response> {
    await pause(of.streamOpenedAt + streamPauseMs - performance.now(), init.signal)
    of.streamOpenedAt = performance.now()
    return this.#fetch(url, init, of)
  }

  /**
   * One that broke off is asked for until it is there again: the SDK gives up after two attempts, and a server that was away for longer
   * would never be asked for its tools again, as its calls go on to work.
   */
  async #openNotices(url: string | URL, init: RequestInit, of: Sending): Promise<Response> {
    for (let delayMs = streamPauseMs; ; delayMs = Math.min(2 * delayMs, maxStreamPauseMs)) {
      const response = await this.#openStream(url, init, of).catch((error: unknown) => {
        if (!this.#hasNotices || init.signal?.aborted === true) throw error
      })
      // 404: it knows the session no more, which reading its tools will tell.
      if (this.#hasNotices && (response?.ok === true || response?.status === 404)) this.#options.onNoticesMissed()
      this.#hasNotices ||= response?.ok === true
      if (response !== undefined && (response.status < 500 || !this.#hasNotices)) return response
      await response?.body?.cancel()
      await pause(delayMs, init.signal)
    }
  }

  /** Bounds the time of one answer, by a deadline, by its cancellation and by the end of the connection. */
  #answerOf(id: number | string, connection: AbortSignal | undefined): { signal: AbortSignal; release: () => void } {
    const controller = new AbortController()
    const stop = (): void => controller.abort()
    const timer = setTimeout(stop, Math.min(this.#options.responseTimeoutMs, 2_147_483_647))
    timer.unref()
    // Not `AbortSignal.any`, which would tie each answer to the connection for good.
    connection?.addEventListener('abort', stop, { once: true })
    if (connection?.aborted === true) stop()
    this.#underway.set(id, controller)
    return {
      signal: controller.signal,
      release: () => {
        clearTimeout(timer)
        connection?.removeEventListener('abort', stop)
        if (this.#underway.get(id) === controller) this.#underway.delete(id)
      }
    }
  }

  async #sayGoodbye(): Promise<boolean> {
    const late = sleep(goodbyeMs, undefined, { ref: false })
    await Promise.race([this.terminateSession().catch(() => {}), late])
    await this.close()
    return true
  }
}

async function pause(delayMs: number, signal: AbortSignal | null | undefined): Promise<void> {
  if (delayMs > 0) await sleep(delayMs, undefined, { ...(signal && { signal }), ref: false })
}
