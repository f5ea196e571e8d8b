import type { NewEvent, TableWrite } from '../event-log/event-log.ts'

/** The events and writes that open a step, to be appended once. */
export class Opening {
  readonly #events: readonly NewEvent[]
  readonly #writes: TableWrite[] = []
  #isTaken: boolean
  #taken: Promise<unknown> | undefined

  constructor(events: readonly NewEvent[]) {
    this.#events = events
    this.#isTaken = events.length === 0
  }

  /** What else is to be stored with the opening, which nobody has taken yet. */
  add(writes: readonly TableWrite[]): void {
    this.#writes.push(...writes)
    this.#isTaken = false
  }

  /** There is nothing left to begin with. */
  get isTaken(): boolean {
    return this.#isTaken
  }

  /** Resolves when the opening is stored; rejects when its append did. */
  async stored(): Promise<void> {
    await this.#taken
  }

  /** Lets `append` begin with the opening, if nobody did before. */
  first<T>(append: (events: readonly NewEvent[], writes: readonly TableWrite[]) => Promise<T>): Promise<T> {
    if (this.#isTaken) return append([], [])
    this.#isTaken = true
    const appended = append(this.#events, this.#writes)
    this.#taken = appended
    appended.catch(() => undefined)
    return appended
  }
}
