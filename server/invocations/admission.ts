import { RequestError } from '../errors.ts'

/** Settings of `calls` (reliability.md §3.1). `maxQueued` counts the requests of all scopes. */
export interface AdmissionLimits {
  maxConcurrent: number
  maxConcurrentPerScope: number
  maxQueued: number
  queueTimeoutMs: number
}

/**
 * How many requests run at a time, in all and in each scope: more wait in line, and what the line does not hold is refused
 * (reliability.md §3.1). A scope at its own limit keeps no other scope waiting.
 */
export class Admission {
  readonly #limits: AdmissionLimits
  readonly #perScope = new Map<string, number>()
  /** Those who are to go on come before those who are to begin. */
  readonly #resuming = new Set<Slot>()
  readonly #waiting = new Set<Slot>()
  #running = 0

  constructor(limits: AdmissionLimits) {
    this.#limits = limits
  }

  /**
   * A place for one request, held at once or waiting in line. Throws, when the line is full, `RATE_LIMITED` if the scope's own limit
   * is what the request would wait for, else `OVERLOADED`; the details name the limit.
   */
  request(scope: string): Slot {
    const slot = new Slot(this, scope)
    if (this.occupy(slot)) return slot
    if (this.#waiting.size >= this.#limits.maxQueued) throw this.refusal(scope)
    this.#waiting.add(slot)
    return slot
  }

  /** A place, not held yet, for a request that an earlier run of the server let in. */
  readmit(scope: string): Slot {
    return new Slot(this, scope)
  }

  get queueTimeoutMs(): number {
    return this.#limits.queueTimeoutMs
  }

  occupy(slot: Slot): boolean {
    if (this.#blocking(slot.scope) !== undefined) return false
    this.#running += 1
    this.#perScope.set(slot.scope, (this.#perScope.get(slot.scope) ?? 0) + 1)
    slot.isHeld = true
    return true
  }

  /** Waits to go on; the line for that has no limit, as who stands in it was admitted before. */
  lineUpAgain(slot: Slot): void {
    this.#resuming.add(slot)
  }

  stepOut(slot: Slot): void {
    this.#waiting.delete(slot)
    this.#resuming.delete(slot)
  }

  /** Takes the place back, and lets in who has waited longest and may run now. */
  vacate(slot: Slot): void {
    slot.isHeld = false
    this.#running -= 1
    const left = (this.#perScope.get(slot.scope) ?? 0) - 1
    if (left > 0) this.#perScope.set(slot.scope, left)
    else this.#perScope.delete(slot.scope)
    for (const line of [this.#resuming, this.#waiting]) {
      for (const next of line) {
        if (!this.occupy(next)) continue
        line.delete(next)
        next.letGo()
      }
    }
  }

  refusal(scope: string): RequestError {
    const limit = this.#blocking(scope) ?? 'maxConcurrent'
    const details = { limit: `calls.${limit}`, value: this.#limits[limit] }
    return new RequestError(limit === 'maxConcurrent' ? 'OVERLOADED' : 'RATE_LIMITED', undefined, { details })
  }

  #blocking(scope: string): 'maxConcurrentPerScope' | 'maxConcurrent' | undefined {
    const { maxConcurrent, maxConcurrentPerScope } = this.#limits
    if ((this.#perScope.get(scope) ?? 0) >= maxConcurrentPerScope) return 'maxConcurrentPerScope'
    return this.#running >= maxConcurrent ? 'maxConcurrent' : undefined
  }
}

/** The place of one request. It is given back while the call waits for a person, and at the end by `release`. */
export class Slot {
  readonly scope: string
  readonly #admission: Admission
  isHeld = false
  /** How many wait for a person under this place: the calls of a batch, or of a program. */
  #away = 0
  /** Those who wait for the place itself. */
  readonly #waiters = new Set<() => void>()

  constructor(admission: Admission, scope: string) {
    this.#admission = admission
    this.scope = scope
  }

  /**
   * Resolves when the place is held, or without it when `signal` aborts. Rejects when it took longer than `queueTimeoutMs`, with what
   * a full line would have answered.
   */
  async wait(signal: AbortSignal): Promise<void> {
    if (this.isHeld || signal.aborted) return
    const timer = new AbortController()
    const timeout = setTimeout(() => timer.abort(), this.#admission.queueTimeoutMs)
    try {
      await this.#heldOr([signal, timer.signal])
    } finally {
      clearTimeout(timeout)
    }
    if (timer.signal.aborted && !this.isHeld && !signal.aborted) throw this.#admission.refusal(this.scope)
  }

  /** Somebody waits for a person: the place is given back until the returned undo of each is called, and `resume` takes it again. */
  pause(): () => void {
    this.#away += 1
    if (this.isHeld) this.#admission.vacate(this)
    else {
      this.#admission.stepOut(this)
      this.letGo()
    }
    let isBack = false
    return () => {
      if (!isBack) this.#away -= 1
      isBack = true
    }
  }

  /**
   * Takes the place again, before all who have not begun yet. Resolves without it when `signal` aborts, and while somebody else under
   * it waits for a person: that one must not keep the others waiting.
   */
  async resume(signal: AbortSignal): Promise<void> {
    if (this.isHeld || this.#away > 0 || signal.aborted || this.#admission.occupy(this)) return
    this.#admission.lineUpAgain(this)
    await this.#heldOr([signal])
  }

  release(): void {
    this.#admission.stepOut(this)
    if (this.isHeld) this.#admission.vacate(this)
  }

  /** Those who wait for the place go on. */
  letGo(): void {
    for (const go of this.#waiters) go()
    this.#waiters.clear()
  }

  async #heldOr(signals: readonly AbortSignal[]): Promise<void> {
    await new Promise<void>((resolve) => {
      const go = (): void => {
        this.#waiters.delete(go)
        if (this.#waiters.size === 0) this.#admission.stepOut(this)
        resolve()
      }
      this.#waiters.add(go)
      for (const signal of signals) signal.addEventListener('abort', go, { once: true })
    })
  }
}
