import type { RequestError } from '../errors.ts'
import { type AdmissionLimits, type LimitSettings, noLimits } from './limits/limit-set.ts'
import type { Meter } from './limits/meter.ts'
import { type Asker, Meters } from './limits/meters.ts'
import { limited, type LimitName, overloaded, rateLimited, type Refusal } from './limits/refusal.ts'
import { Slot } from './slot.ts'

export type { AdmissionLimits } from './limits/limit-set.ts'

/**
 * Which requests run, which wait in line and which are refused (reliability.md §3.1): by the limits of the server and by those of their
 * scopes, tools and tokens. A request that waits for a limit of its own keeps no other waiting.
 */
export class Admission {
  readonly meters: Meters
  readonly #limits: AdmissionLimits
  readonly #now: () => number
  /** Those who are to go on come before those who are to begin. */
  readonly #resuming = new Set<Slot>()
  readonly #waiting = new Set<Slot>()
  readonly #listeners = new Set<(limit: LimitName) => void>()
  #running = 0

  /** `now` is a clock that never goes back, in milliseconds. */
  constructor(limits: AdmissionLimits, settings: LimitSettings = noLimits, now = (): number => performance.now()) {
    this.#limits = limits
    this.#now = now
    this.meters = new Meters(limits, settings, now)
  }

  get running(): number {
    return this.#running
  }

  get waiting(): number {
    return this.#waiting.size
  }

  get queueTimeoutMs(): number {
    return this.#limits.queueTimeoutMs
  }

  /**
   * A place for one request, held at once or waiting in line. Throws `RATE_LIMITED` for a limit of its scope, tools or token, and
   * `OVERLOADED` for one of the server; the details name the limit. What is refused uses nothing up.
   */
  request(asker: Asker): Slot {
    const slot = new Slot(this, asker, this.meters.of(asker))
    const now = this.#now()
    const exhausted = this.#exhausted(slot, now)
    if (exhausted !== undefined) throw this.#tell(exhausted)
    if (!this.occupy(slot)) this.#lineUp(slot)
    for (const meter of slot.meters) meter.take(now)
    return slot
  }

  /** A place, not held yet, for a request that an earlier run of the server let in. */
  readmit(asker: Asker): Slot {
    return new Slot(this, asker, this.meters.of(asker))
  }

  occupy(slot: Slot): boolean {
    if (this.#running >= this.#limits.maxConcurrent || slot.meters.some(({ isFull }) => isFull)) return false
    this.#running += 1
    for (const meter of slot.meters) meter.running += 1
    slot.isHeld = true
    return true
  }

  /** Waits to go on; the line for that has no limit, as who stands in it was admitted before. */
  lineUpAgain(slot: Slot): void {
    this.#resuming.add(slot)
  }

  stepOut(slot: Slot): void {
    this.#leaveLine(slot)
    this.#resuming.delete(slot)
  }

  /** Takes the place back, and lets in who has waited longest and may run now. */
  vacate(slot: Slot): void {
    slot.isHeld = false
    this.#running -= 1
    for (const meter of slot.meters) meter.running -= 1
    this.letIn()
  }

  /** Lets in who may run now; also to be called when limits were raised. */
  letIn(): void {
    for (const line of [this.#resuming, this.#waiting]) {
      for (const next of line) {
        if (this.#running >= this.#limits.maxConcurrent) return
        if (!this.occupy(next)) continue
        if (line === this.#waiting) this.#leaveLine(next)
        else line.delete(next)
        next.letGo()
      }
    }
  }

  /** What a request is told that has waited too long. */
  refusal(slot: Slot): RequestError {
    return this.#tell(this.#blocking(slot))
  }

  /** Hears of each refusal by the name of its limit; returns the undo. */
  onRefused(listener: (limit: LimitName) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  #lineUp(slot: Slot): void {
    const full = slot.meters.find(({ isQueueFull }) => isQueueFull)
    if (full !== undefined) throw this.#tell(limited(full, 'queue', slot.asker))
    if (this.#waiting.size >= this.#limits.maxQueued) throw this.refusal(slot)
    this.#waiting.add(slot)
    for (const meter of slot.meters) meter.waiting += 1
  }

  #leaveLine(slot: Slot): void {
    if (this.#waiting.delete(slot)) for (const meter of slot.meters) meter.waiting -= 1
  }

  #exhausted(slot: Slot, now: number): Refusal | undefined {
    let worst: { meter: Meter; rate: NonNullable<ReturnType<Meter['exhausted']>> } | undefined
    for (const meter of slot.meters) {
      const rate = meter.exhausted(now)
      if (rate !== undefined && rate.waitMs > (worst?.rate.waitMs ?? 0)) worst = { meter, rate }
    }
    return worst && rateLimited(worst.meter, worst.rate, slot.asker)
  }

  #blocking({ meters, asker }: Slot): Refusal {
    const full = meters.find(({ isFull }) => isFull)
    if (full !== undefined) return limited(full, 'concurrency', asker)
    return overloaded('calls.maxConcurrent', this.#limits.maxConcurrent)
  }

  #tell({ limit, error }: Refusal): RequestError {
    for (const listener of this.#listeners) listener(limit)
    return error
  }
}
