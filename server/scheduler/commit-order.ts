/** Commits in model order whatever the order of settling: head-of-line blocking on purpose (core.md §22.4). */
export class CommitOrder {
  readonly #ready: boolean[] = []
  readonly #commit: (index: number) => Promise<void>
  #next: number

  constructor(first: number, commit: (index: number) => Promise<void>) {
    this.#next = first
    this.#commit = commit
  }

  markReady(index: number): void {
    this.#ready[index] = true
  }

  async commitReady(): Promise<void> {
    while (this.#ready[this.#next] === true) {
      await this.#commit(this.#next)
      this.#next += 1
    }
  }
}
