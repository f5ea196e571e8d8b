import type { Scope } from '../scopes/scope.ts'
import type { Undo } from '../scopes/slots.ts'
import { usedLagMs } from './stored-scope.ts'

/** Time as it passes, in milliseconds; a test brings its own. */
export interface Clock {
  /** Never goes back, and knows nothing of corrections of the system's time. */
  monotonic(): number
  /** Epoch milliseconds. */
  wall(): number
  /** Runs something after a while; the undo prevents it. */
  after(delayMs: number, run: () => void): Undo
}

export const systemClock: Clock = {
  monotonic: () => performance.now(),
  wall: () => Date.now(),
  after: (delayMs, run) => {
    const timer = setTimeout(run, delayMs)
    timer.unref()
    return () => clearTimeout(timer)
  }
}

interface Watched {
  readonly ttlMs: number
  deadline: number
  /** The last use that was reported for storing. */
  reportedAt: number
  cancel: Undo
}

/** Node's timers fire at once beyond this. */
const maxDelayMs = 2_147_483_647

export interface IdleOptions {
  clock: Clock
  /** Nothing used the scope for its `ttlMs`. Whoever finds that it is busy calls `rearm`. */
  onIdle: (scope: Scope) => void
  /** The stored time of the last use has become too old. */
  onUsed: (scope: Scope) => void
}

/** Which scopes are to end when nobody uses them (api.md §3, `ttlMs`). A use of a scope is one of all above it. */
export class IdleScopes {
  readonly #options: IdleOptions
  readonly #watched = new Map<Scope, Watched>()

  constructor(options: IdleOptions) {
    this.#options = options
  }

  /** Watches a scope, anew if it was watched; `firstMs` is the time it has before any use. */
  watch(scope: Scope, ttlMs: number, firstMs: number = ttlMs): void {
    this.forget(scope)
    const now = this.#options.clock.monotonic()
    const watched: Watched = { ttlMs, deadline: now + firstMs, reportedAt: now, cancel: () => undefined }
    this.#watched.set(scope, watched)
    this.#arm(scope, watched)
  }

  forget(scope: Scope): void {
    this.#watched.get(scope)?.cancel()
    this.#watched.delete(scope)
  }

  used(scope: Scope): void {
    if (this.#watched.size === 0) return
    const now = this.#options.clock.monotonic()
    for (const layer of scope.chain) {
      const watched = this.#watched.get(layer)
      if (watched === undefined) continue
      watched.deadline = Math.max(watched.deadline, now + watched.ttlMs)
      if (now - watched.reportedAt < usedLagMs(watched.ttlMs)) continue
      watched.reportedAt = now
      this.#options.onUsed(layer)
    }
  }

  isIdle(scope: Scope): boolean {
    const watched = this.#watched.get(scope)
    return watched !== undefined && watched.deadline <= this.#options.clock.monotonic()
  }

  /** Goes on watching a scope that `onIdle` was told of. */
  rearm(scope: Scope): void {
    const watched = this.#watched.get(scope)
    if (watched !== undefined) this.#arm(scope, watched)
  }

  close(): void {
    for (const scope of [...this.#watched.keys()]) this.forget(scope)
  }

  #arm(scope: Scope, watched: Watched): void {
    const { clock, onIdle } = this.#options
    watched.cancel()
    const leftMs = Math.min(Math.max(watched.deadline - clock.monotonic(), 1), maxDelayMs)
    watched.cancel = clock.after(leftMs, () => (this.isIdle(scope) ? onIdle(scope) : this.#arm(scope, watched)))
  }
}
