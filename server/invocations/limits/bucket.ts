import type { Rate } from './limit-set.ts'

/** Rates that are used up and back within this time, in milliseconds, do not outlive the process. */
const storedFromMs = 10_000

/** How much of one rate is used. Times are those of a clock that never goes back, in milliseconds. */
export class Bucket {
  rate: Rate
  #used: number
  #at: number

  constructor(rate: Rate, used: number, now: number) {
    this.rate = rate
    this.#used = used
    this.#at = now
  }

  get burst(): number {
    return this.rate.burst ?? this.rate.requests
  }

  /** Whether what is used now still counts after a restart. */
  get isStored(): boolean {
    return (this.burst / this.rate.requests) * this.rate.perMs >= storedFromMs
  }

  used(now: number): number {
    const { requests, perMs } = this.rate
    this.#used = Math.max(0, this.#used - (Math.max(0, now - this.#at) * requests) / perMs)
    this.#at = now
    return this.#used
  }

  /** Milliseconds until there is room for one request more; 0 when there is. */
  waitMs(now: number): number {
    const over = this.used(now) + 1 - this.burst
    // The divisions of `used` leave a trace of what is no debt any more.
    return over <= 1e-9 ? 0 : (over * this.rate.perMs) / this.rate.requests
  }

  take(now: number): void {
    this.#used = this.used(now) + 1
  }
}
