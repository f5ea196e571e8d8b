/** Shorter waits would cost more than what they hold back. */
const leastWaitMs = 20

/**
 * How fast a server is listened to, over all its connections: what it says beyond `perSecond` messages, and once as many ahead, is read
 * later. Each costs the main thread a parse, whatever it is, so a flood of them would hold everybody up (reliability.md S8).
 */
export class MessagePace {
  readonly #perSecond: number
  readonly #now: () => number
  #left: number
  #countedAt: number

  /** `now` is a clock that never goes back, in milliseconds. */
  constructor(perSecond: number, now: () => number = () => performance.now()) {
    this.#perSecond = perSecond
    this.#now = now
    this.#left = perSecond
    this.#countedAt = now()
  }

  /** Counts messages that are read; says how many milliseconds nothing more is to be read. */
  spend(messages: number): number {
    const now = this.#now()
    const gained = ((now - this.#countedAt) * this.#perSecond) / 1_000
    this.#countedAt = now
    this.#left = Math.min(this.#perSecond, this.#left + gained) - messages
    return this.#left >= 0 ? 0 : Math.max(leastWaitMs, Math.ceil((-this.#left * 1_000) / this.#perSecond))
  }
}
