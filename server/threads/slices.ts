import { setImmediate } from 'node:timers/promises'

const sliceMs = 10

/** Cuts work on the main loop into slices: between two of them whatever else is waiting gets its turn. */
export class Slices {
  #since = performance.now()

  /** To be awaited between pieces that are short themselves; returns at once while the slice lasts. */
  async next(): Promise<void> {
    if (performance.now() - this.#since < sliceMs) return
    await setImmediate()
    this.#since = performance.now()
  }
}
