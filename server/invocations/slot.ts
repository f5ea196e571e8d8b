import type { Admission } from './admission.ts'
import type { Meter } from './limits/meter.ts'
import type { Asker } from './limits/meters.ts'

/** What `resume` gives where there is nothing to wait for: each call asks. */
const held = Promise.resolve()

/** The place of one request. It is given back while the call waits for a person, and at the end by `release`. */
export class Slot {
  readonly asker: Asker
  readonly meters: readonly Meter[]
  readonly #admission: Admission
  isHeld = false
  /** How many wait for a person under this place: the calls of a batch, or of a program. */
  #away = 0
  /** Those who wait for the place itself. */
  readonly #waiters = new Set<() => void>()

  constructor(admission: Admission, asker: Asker, meters: readonly Meter[]) {
    this.#admission = admission
    this.asker = asker
    this.meters = meters
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
    if (timer.signal.aborted && !this.isHeld && !signal.aborted) throw this.#admission.refusal(this)
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
  resume(signal: AbortSignal): Promise<void> {
    if (this.isHeld || this.#away > 0 || signal.aborted || this.#admission.occupy(this)) return held
    this.#admission.lineUpAgain(this)
    return this.#heldOr([signal])
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

  #heldOr(signals: readonly AbortSignal[]): Promise<void> {
    return new Promise<void>((resolve) => {
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
