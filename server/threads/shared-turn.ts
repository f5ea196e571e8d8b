/** So much of a turn of the main loop; whatever else is waiting gets the rest. */
const turnMs = 4

/**
 * What many tasks at once may take of one turn of the main loop together: with 10 ms for each of them, twenty programs kept it for
 * 200 ms. Those that find the turn used up go on one by one, in the order in which they asked.
 */
export class SharedTurn {
  readonly #waiting: (() => void)[] = []
  #since = 0
  #isOpen = false

  /** To be awaited between pieces that are short themselves; undefined while there is time left, and then a wait would only let others in. */
  next(): Promise<void> | undefined {
    if (!this.#isOpen) this.#open()
    else if (performance.now() - this.#since >= turnMs) return new Promise((resolve) => this.#waiting.push(resolve))
    return undefined
  }

  #open(): void {
    this.#isOpen = true
    this.#since = performance.now()
    setImmediate(() => {
      this.#isOpen = false
      const first = this.#waiting.shift()
      if (first === undefined) return
      this.#open()
      first()
    })
  }
}
