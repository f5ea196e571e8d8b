/** Runs pieces of work one after another, in the order in which they came. */
export class InTurn {
  #last: Promise<unknown> = Promise.resolve()

  run<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(work)
    this.#last = turn.catch(() => undefined)
    return turn
  }

  /** Resolves when what has come so far is done, well or not. */
  async idle(): Promise<void> {
    await this.#last
  }
}
