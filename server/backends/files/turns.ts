/** Lets work on the same key begin one after the other, in the order of asking; a key that nobody waits for costs nothing. */
export class Turns {
  readonly #last = new Map<string, Promise<void>>()

  /** Settles as `work` does; one that fails does not stop the next. */
  take<T>(key: string, work: () => Promise<T>): Promise<T> {
    const turn = (this.#last.get(key) ?? Promise.resolve()).then(work)
    const settled: Promise<void> = turn
      .then(
        () => {},
        () => {}
      )
      .then(() => {
        if (this.#last.get(key) === settled) this.#last.delete(key)
      })
    this.#last.set(key, settled)
    return turn
  }
}
