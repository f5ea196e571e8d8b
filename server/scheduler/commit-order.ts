/** Commits in model order whatever the order of settling: head-of-line blocking on purpose (core.md §22.4). */
export class CommitOrder {
  readonly #ready = new Map<number, () => Promise<void>>()
  #next: number

  constructor(first: number) {
    this.#next = first
  }

  markReady(index: number, commit: () => Promise<void>): void {
    this.#ready.set(index, commit)
  }

  async commitReady(): Promise<void> {
    for (let commit = this.#ready.get(this.#next); commit !== undefined; commit = this.#ready.get(this.#next)) {
      this.#ready.delete(this.#next)
      this.#next += 1
      await commit()
    }
  }
}
