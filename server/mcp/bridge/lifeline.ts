import type { Undo } from '../../scopes/slots.ts'
import { McpBridgeError } from './bridge-error.ts'
import type { Link } from './link.ts'
import type { ReconnectPolicy } from './server-definition.ts'

/** Time as it passes, in milliseconds; a test brings its own. */
export interface BridgeClock {
  monotonic(): number
  after(delayMs: number, run: () => void): Undo
}

export type LifelineState = 'connecting' | 'ready' | 'disconnected' | 'stopped' | 'closed'

export interface LifelineOptions {
  /** Makes a connection whose tools are in force when it resolves; leaves nothing open when it rejects. */
  readonly open: () => Promise<Link>
  readonly policy: ReconnectPolicy
  readonly clock: BridgeClock
  /** What may be told of an error: nothing secret, and not too much. */
  readonly tell: (error: unknown) => string
  readonly onState: () => void
  /** It will not connect again: the tools go. */
  readonly onStopped: () => void
}

/** Keeps one connection alive, as backends.md §10 says: backoff, and a budget that only a connection which lasted makes whole again. */
export class Lifeline {
  readonly #options: LifelineOptions
  #state: LifelineState = 'connecting'
  #link: Link | undefined
  #openedAt = 0
  #attempts = 0
  /** The attempt under way. */
  #attempt: Promise<Link> | undefined
  /** The end of a lost connection that is being waited for. */
  #settling: Promise<void> | undefined
  #pending: { cancel: Undo; isFirst: boolean } | undefined
  #lastError: string | undefined

  constructor(options: LifelineOptions) {
    this.#options = options
  }

  get state(): LifelineState {
    return this.#state
  }

  /** The link that is in use, if any. */
  get link(): Link | undefined {
    return this.#link
  }

  /** Why it is not connected, or was not, last. */
  get lastError(): string | undefined {
    return this.#lastError
  }

  note(error: unknown): void {
    this.#lastError = this.#options.tell(error)
  }

  /** The first attempt; rejects if it fails, but goes on by the policy. */
  start(): Promise<Link> {
    return this.#try()
  }

  /**
   * The live link. One that was just lost is made anew for the first who asks (F55); later, and while the server cannot be reached,
   * callers are told so at once: `MCP_UNAVAILABLE`.
   */
  async ready(): Promise<Link> {
    await this.#settling
    if (this.#link !== undefined) return this.#link
    if (this.#attempt === undefined) {
      if (this.#pending?.isFirst !== true) throw this.#unavailable()
      this.#takePending()
      this.#attempts += 1
      void this.#try().catch(() => {})
    }
    try {
      return await this.#attempt!
    } catch (error) {
      throw this.#unavailable(error)
    }
  }

  /** A new connection in place of one whose session is over; one for all who ask (F53). */
  async renew(old: Link): Promise<Link> {
    if (this.#link !== old) return this.ready()
    this.#link = undefined
    const attempt = this.#try()
    attempt.catch(() => {})
    void old.end().catch(() => {})
    try {
      return await attempt
    } catch (error) {
      throw this.#unavailable(error)
    }
  }

  async close(): Promise<void> {
    const link = this.#link
    this.#link = undefined
    this.#takePending()
    this.#become('closed')
    await this.#settling
    await this.#attempt?.catch(() => {})
    await link?.end()
  }

  #try(): Promise<Link> {
    if (this.#state !== 'closed') this.#become('connecting')
    const attempt = this.#open()
    this.#attempt = attempt
    return attempt
  }

  async #open(): Promise<Link> {
    const { open, clock } = this.#options
    try {
      const link = await open()
      if (this.#state === 'closed') {
        await link.end()
        throw new Error('the bridge to this server is closed')
      }
      this.#attempt = undefined
      this.#link = link
      this.#openedAt = clock.monotonic()
      this.#lastError = undefined
      this.#become('ready')
      void link.closed.then(() => this.#lose(link))
      return link
    } catch (error) {
      this.#attempt = undefined
      this.note(error)
      this.#schedule(false)
      throw error
    }
  }

  #lose(link: Link): void {
    if (this.#link !== link) return
    const { clock, policy } = this.#options
    this.#link = undefined
    if (clock.monotonic() - this.#openedAt >= policy.maxDelayMs) this.#attempts = 0
    this.#lastError ??= 'the connection was closed'
    this.#become('disconnected')
    this.#settling = link.end().then((isGone) => {
      this.#settling = undefined
      if (isGone) this.#schedule(true)
      else this.#stop('the last connection could not be ended')
    })
  }

  #schedule(isFirst: boolean): void {
    if (this.#state === 'closed') return
    const { policy, clock } = this.#options
    this.#become('disconnected')
    if (!policy.enabled) return
    if (this.#attempts >= policy.maxAttempts) {
      return this.#stop(`given up after ${this.#attempts} attempts: ${this.#lastError ?? ''}`)
    }
    const delayMs = Math.min(policy.initialDelayMs * 2 ** this.#attempts, policy.maxDelayMs)
    const cancel = clock.after(delayMs, () => {
      this.#pending = undefined
      this.#attempts += 1
      void this.#try().catch(() => {})
    })
    this.#pending = { cancel, isFirst }
  }

  #takePending(): void {
    this.#pending?.cancel()
    this.#pending = undefined
  }

  #stop(reason: string): void {
    if (this.#state === 'closed') return
    this.#lastError = reason
    this.#become('stopped')
    this.#options.onStopped()
  }

  #become(state: LifelineState): void {
    if (this.#state === state) return
    this.#state = state
    this.#options.onState()
  }

  #unavailable(cause?: unknown): McpBridgeError {
    const reason = this.#lastError === undefined ? '' : `: ${this.#lastError}`
    return new McpBridgeError('MCP_UNAVAILABLE', `the MCP server is not connected${reason}`, { cause, effect: 'none' })
  }
}
