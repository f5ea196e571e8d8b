/** Bodies in flight: they overlap and settle in any order; the lane waits for whichever is next (core.md §22.3). */
export class RollingPool {
  #running = 0
  #settled = 0
  #failure: { error: unknown } | undefined
  #wake: (() => void) | undefined

  /** Bodies launched and not yet taken by `next`. */
  get inFlight(): number {
    return this.#running + this.#settled
  }

  launch(body: () => Promise<void>): void {
    this.#running += 1
    void body()
      .catch((error: unknown) => {
        this.#failure ??= { error }
      })
      .then(() => {
        this.#running -= 1
        this.#settled += 1
        this.#wake?.()
      })
  }

  /** Resolves when one more body has settled; rejects with the first failure of the machinery around the bodies. */
  async next(): Promise<void> {
    if (this.#settled === 0) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
      this.#wake = undefined
    }
    this.#settled -= 1
    if (this.#failure !== undefined) throw this.#failure.error
  }

  /** Every body has settled, whatever came of it (core.md §22.7). */
  async drain(): Promise<void> {
    while (this.inFlight > 0) await this.next().catch(() => undefined)
  }
}
