import type { Undo } from '../../scopes/slots.ts'
import type { BridgeClock } from './lifeline.ts'

/** Reads a list again as often as it is asked to, but one reading after another, and no two closer together than `intervalMs`. */
export class ResyncPace {
  readonly #intervalMs: number
  readonly #clock: BridgeClock
  readonly #resync: () => Promise<void>
  #readyAt = -Infinity
  #isAsked = false
  #isBusy = false
  #cancel: Undo | undefined
  #isClosed = false

  constructor(intervalMs: number, clock: BridgeClock, resync: () => Promise<void>) {
    this.#intervalMs = intervalMs
    this.#clock = clock
    this.#resync = resync
  }

  ask(): void {
    this.#isAsked = true
    this.#next()
  }

  close(): void {
    this.#isClosed = true
    this.#cancel?.()
  }

  #next(): void {
    if (!this.#isAsked || this.#isBusy || this.#isClosed || this.#cancel !== undefined) return
    const delayMs = this.#readyAt - this.#clock.monotonic()
    if (delayMs > 0) {
      this.#cancel = this.#clock.after(delayMs, () => {
        this.#cancel = undefined
        this.#next()
      })
      return
    }
    this.#isAsked = false
    this.#isBusy = true
    this.#readyAt = this.#clock.monotonic() + this.#intervalMs
    void this.#resync().finally(() => {
      this.#isBusy = false
      this.#next()
    })
  }
}
