import { Bucket } from './bucket.ts'
import type { LimitSet, Rate } from './limit-set.ts'

/** What a meter counts: a scope by itself, a scope with all below it, a tool in such a scope, or a token. */
export interface Measured {
  readonly kind: 'own' | 'scope' | 'tool' | 'token'
  /** The scope's id; absent for a token. */
  readonly scope?: string
  readonly tool?: string
}

/** What is used of a rate, as it is stored. */
export interface StoredUse {
  readonly perMs: number
  readonly used: number
}

/** Counts the requests of one scope, tool or token against its limits. */
export class Meter {
  readonly of: Measured
  running = 0
  waiting = 0
  /** Something was taken of a rate since it was last stored. */
  isDirty = false
  #limits: LimitSet = {}
  #buckets: readonly Bucket[] = []

  constructor(of: Measured, limits: LimitSet, now: number) {
    this.of = of
    this.configure(limits, now)
  }

  get limits(): LimitSet {
    return this.#limits
  }

  get isFull(): boolean {
    const { concurrency } = this.#limits
    return concurrency !== undefined && this.running >= concurrency
  }

  get isQueueFull(): boolean {
    const { queue } = this.#limits
    return queue !== undefined && this.waiting >= queue
  }

  /** Nothing would be lost with it. */
  isIdle(now: number): boolean {
    return this.running === 0 && this.waiting === 0 && this.#buckets.every((bucket) => bucket.used(now) === 0)
  }

  /** Other limits hold from now on. What was used of a rate stays used, as far as there still is one for the same time. */
  configure(limits: LimitSet, now: number): void {
    const before = new Map(this.#buckets.map((bucket) => [bucket.rate.perMs, bucket.used(now)]))
    this.#limits = limits
    this.#buckets = (limits.rates ?? []).map((rate) => new Bucket(rate, before.get(rate.perMs) ?? 0, now))
  }

  /** The rate that has no room for one more, and for how long: the one that has none the longest. */
  exhausted(now: number): { rate: Rate; waitMs: number } | undefined {
    let worst: { rate: Rate; waitMs: number } | undefined
    for (const bucket of this.#buckets) {
      const waitMs = bucket.waitMs(now)
      if (waitMs > (worst?.waitMs ?? 0)) worst = { rate: bucket.rate, waitMs }
    }
    return worst
  }

  take(now: number): void {
    for (const bucket of this.#buckets) {
      bucket.take(now)
      if (bucket.isStored) this.isDirty = true
    }
  }

  /** Each rate with what is used of it. */
  use(now: number): { rate: Rate; used: number }[] {
    return this.#buckets.map((bucket) => ({ rate: bucket.rate, used: bucket.used(now) }))
  }

  /** What a restart must not forget. */
  storedUse(now: number): StoredUse[] {
    return this.#buckets
      .filter(({ isStored }) => isStored)
      .map((bucket) => ({ perMs: bucket.rate.perMs, used: bucket.used(now) }))
  }

  /** Takes up what an earlier run stored, `agoMs` before now. */
  restore(uses: readonly StoredUse[], agoMs: number, now: number): void {
    const stored = new Map(uses.map(({ perMs, used }) => [perMs, used]))
    const then = now - Math.max(0, agoMs)
    this.#buckets = this.#buckets.map((bucket) => new Bucket(bucket.rate, stored.get(bucket.rate.perMs) ?? 0, then))
  }
}
