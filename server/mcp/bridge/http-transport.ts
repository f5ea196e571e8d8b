import { AsyncLocalStorage } from 'node:async_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { FetchLike } from '@modelcontextprotocol/sdk/shared/transport.js'
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'
import { type Agent, fetch as undiciFetch } from 'undici'
import { boundedResponse } from './bounded-response.ts'
import type { LinkTransport } from './link-transport.ts'
import type { Sealed } from './server-definition.ts'

/** The end of a session is told to its server, but not waited for longer. */
const goodbyeMs = 2_000
/** Between two openings of the stream of notices: a server can ask for it to be taken up again at once, for ever. */
const streamPauseMs = 1_000

export interface HttpTransportOptions {
  readonly url: URL
  readonly headers: Readonly<Record<string, Sealed>>
  readonly agent: Agent
  /** Of one message. */
  readonly maxMessageBytes: number
  /** After which a response that nobody waits for any more is let go. */
  readonly responseTimeoutMs: number
}

/**
 * The SDK's streamable HTTP, with limits. Redirects are followed within the origin of the URL alone, which an admin named and which may
 * be an address of this machine (backends.md D7); nothing else that a server names is ever opened.
 */
export class HttpTransport extends StreamableHTTPClientTransport implements LinkTransport {
  readonly #options: HttpTransportOptions
  readonly #underway = new Map<number | string, AbortController>()
  readonly #request: AsyncLocalStorage<number | string | undefined>
  #end: Promise<boolean> | undefined

  constructor(options: HttpTransportOptions) {
    const request = new AsyncLocalStorage<number | string | undefined>()
    let streamOpenedAt = -Infinity
    const doFetch: FetchLike = async (url, init) => {
      const id = request.getStore()
      if (init?.method === 'GET') {
        const pause = streamOpenedAt + streamPauseMs - performance.now()
        if (pause > 0) await sleep(pause, undefined, { ...(init.signal && { signal: init.signal }), ref: false })
        streamOpenedAt = performance.now()
      }
      const answer = id === undefined ? undefined : this.#answerOf(id, init?.signal ?? undefined)
      const onEnd = (): void => answer?.release()
      try {
        const signal = answer === undefined ? {} : { signal: answer.signal }
        const response = await undiciFetch(url, { ...(init as object), ...signal, dispatcher: options.agent })
        const { maxMessageBytes } = options
        return boundedResponse(response, { maxMessageBytes, answers: typeof id === 'number' ? id : undefined, onEnd })
      } catch (error) {
        onEnd()
        throw error
      }
    }
    const headers = Object.entries(options.headers).map(([name, value]) => [name, value.reveal()])
    super(options.url, { fetch: doFetch, requestInit: { headers: Object.fromEntries(headers) } })
    this.#options = options
    this.#request = request
  }

  override async send(
    message: JSONRPCMessage,
    options?: Parameters<StreamableHTTPClientTransport['send']>[1]
  ): Promise<void> {
    const id = 'method' in message && 'id' in message ? message.id : undefined
    try {
      await this.#request.run(id, () => super.send(message, options))
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
