import { setTimeout as wait } from 'node:timers/promises'
import type { Agent } from 'undici'
import type { AddressGuard } from '../backends/web/address-guard.ts'
import { withDeadline } from '../backends/web/deadline.ts'
import { guardedAgent } from '../backends/web/guarded-agent.ts'
import { WebError } from '../backends/web/web.ts'
import { AbortError } from '../errors.ts'
import { exchange, type ToolAnswer, type ToolRequest } from './http-executor-exchange.ts'
import { blocked, HttpToolError } from './http-executor-errors.ts'
import { isHostAllowed } from './http-executor-hosts.ts'
import type { WireCall } from './executor.ts'

/** Settings of `httpTools`, and what stands on others of them. */
export interface HttpToolLimits {
  readonly guard: AddressGuard
  /** Hosts that tools may be at; empty: any that the guard lets them. */
  readonly allowHosts: readonly string[]
  /** Of a call whose tool has no `timeoutMs`, tries and waits together. */
  readonly timeoutMs: number
  readonly connectTimeoutMs: number
  readonly maxAnswerBytes: number
  /** Connections to one server. Further requests wait for one of them. */
  readonly maxConnections: number
  /** How often a request of an idempotent tool is made again. */
  readonly maxRetries: number
}

/** Longest wait between two tries that the server did not ask for. */
const maxBackoffMs = 5_000
const firstBackoffMs = 100
/** As long as timers go. */
const longestMs = 2 ** 31 - 1
/** Statuses that say: not now. */
const passing = new Set([429, 502, 503, 504])
/**
 * A server that closes an idle connection just as a request is written to it leaves open whether it was read. Most keep them for 5 s
 * or longer, so ours are gone before.
 */
const keepAliveMs = 4_000

/**
 * Makes the requests of HTTP tools over kept connections, behind the address guard (backends.md D7; reliability.md §1.8). Redirects
 * are not followed.
 */
export class HttpToolClient {
  readonly #limits: HttpToolLimits
  #opened: Promise<Agent> | undefined

  constructor(limits: HttpToolLimits) {
    this.#limits = limits
  }

  /** Throws HTTP_TOOL_BLOCKED for a URL that tools may not be at, as far as the URL alone tells. It names the URL's origin, which agents are not told. */
  assertAllowed(url: URL): void {
    try {
      this.#limits.guard.assertUrl(url)
    } catch (error) {
      if (!(error instanceof WebError)) throw error
      throw new HttpToolError('HTTP_TOOL_BLOCKED', `${url.origin}: ${error.message}`, 'none')
    }
    if (isHostAllowed(url, this.#limits.allowHosts)) return
    throw new HttpToolError('HTTP_TOOL_BLOCKED', `${url.origin} is none of the hosts that tools may be at`, 'none')
  }

  /**
   * Makes a request, and makes it again where the tool is idempotent and the failure may pass: no connection, a lost one, or a status
   * that says so; with growing, jittered waits or those that the server asks for, as long as the deadline allows. `makeRequest` is asked
   * anew each time, and told the deadline (epoch milliseconds). Resolves with the last answer, whatever its status. Rejects with a
   * `HttpToolError`, with an `AbortError` when the caller gave it up, or with what `makeRequest` threw.
   */
  async send(
    call: WireCall,
    makeRequest: (deadlineAt: number) => ToolRequest | Promise<ToolRequest>
  ): Promise<ToolAnswer> {
    const deadlineAt = call.deadlineAt ?? Date.now() + this.#limits.timeoutMs
    let wasSent = false
    return withDeadline(
      {
        // A tool's own time is kept by the timeout policy, whose abort comes by the signal and says so (core.md §18).
        timeoutMs: call.deadlineAt === undefined ? this.#limits.timeoutMs : longestMs,
        timedOut: () => new HttpToolError('HTTP_TOOL_TIMEOUT', 'the call took too long', wasSent ? 'unknown' : 'none'),
        signal: call.signal,
        aborted: () => new AbortError(wasSent ? {} : { effect: 'none' })
      },
      async (signal) => {
        for (let tried = 1; ; tried += 1) {
          const request = await makeRequest(deadlineAt)
          const outcome = await this.#try(request, signal, () => (wasSent = true))
          const mayRetry = call.isIdempotent && tried <= this.#limits.maxRetries && !signal.aborted
          const waitMs = mayRetry ? retryDelay(outcome, tried) : undefined
          if (waitMs !== undefined && Date.now() + waitMs < deadlineAt) await wait(waitMs, undefined, { signal })
          else if (!(outcome instanceof HttpToolError)) return outcome
          // An earlier try may have had an effect, though this one had none.
          else
            throw wasSent
              ? new HttpToolError(outcome.code, outcome.message, 'unknown', { cause: outcome.cause })
              : outcome
        }
      }
    )
  }

  /** Ends all connections. What is under way fails. */
  async close(): Promise<void> {
    const agent = await this.#opened
    await agent?.destroy()
  }

  #agent(): Promise<Agent> {
    const { guard, connectTimeoutMs: timeoutMs, maxConnections: connections } = this.#limits
    // The call's own deadline counts, which may be far off.
    const unlimited = { headersTimeout: 0, bodyTimeout: 0 }
    const kept = { connections, pipelining: 1, keepAliveTimeout: keepAliveMs, keepAliveMaxTimeout: 60_000 }
    return (this.#opened ??= guardedAgent(guard, { timeoutMs }, { ...unlimited, ...kept }).catch((error: unknown) => {
      // It may load the next time, as when there was no descriptor left.
      this.#opened = undefined
      throw error
    }))
  }

  async #try(request: ToolRequest, signal: AbortSignal, onSent: () => void): Promise<ToolAnswer | HttpToolError> {
    try {
      this.assertAllowed(new URL(request.origin))
    } catch (error) {
      if (error instanceof HttpToolError) return blocked(error)
      throw error
    }
    try {
      return await exchange(await this.#agent(), request, { maxBytes: this.#limits.maxAnswerBytes, signal, onSent })
    } catch (error) {
      if (error instanceof HttpToolError) return error
      throw error
    }
  }
}

/** How long to wait before the next try; undefined when it would end no other way. */
function retryDelay(outcome: ToolAnswer | HttpToolError, tried: number): number | undefined {
  if (outcome instanceof HttpToolError) {
    const mayPass = outcome.code === 'HTTP_TOOL_UNREACHABLE' || outcome.code === 'HTTP_TOOL_DISCONNECTED'
    return mayPass ? backoff(tried) : undefined
  }
  if (!passing.has(outcome.statusCode)) return undefined
  return retryAfter(outcome.headers['retry-after']) ?? backoff(tried)
}

const backoff = (tried: number): number => Math.random() * Math.min(maxBackoffMs, firstBackoffMs * 2 ** tried)

/** RFC 9110 §10.2.3: seconds, or a date. */
function retryAfter(given: string | undefined): number | undefined {
  if (given === undefined) return undefined
  if (/^\d{1,9}$/.test(given)) return Number(given) * 1_000
  const at = Date.parse(given)
  return Number.isNaN(at) ? undefined : Math.max(0, at - Date.now())
}
