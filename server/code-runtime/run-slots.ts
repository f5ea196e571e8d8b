import { RuntimeOverloadedError } from './runtime-errors.ts'

interface Waiting {
  admit(): void
}

/** Admits runs in the order in which they come: so many at a time, so many waiting (code-mode.md §11). */
export class RunSlots {
  #running = 0
  readonly #waiting = new Set<Waiting>()
  readonly #maxRunning: number
  readonly #maxWaiting: number

  constructor(maxConcurrentRuns: number, maxQueuedRuns: number) {
    this.#maxRunning = maxConcurrentRuns
    this.#maxWaiting = maxQueuedRuns
  }

  get running(): number {
    return this.#running
  }

  get queued(): number {
    return this.#waiting.size
  }

  /**
   * Resolves with true once there is a slot, to be given back with `release`, or with false if the signal fires first. Throws
   * `RuntimeOverloadedError` when the queue is full.
   */
  async acquire(signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return false
    if (this.#running < this.#maxRunning) {
      this.#running += 1
      return true
    }
    if (this.#waiting.size >= this.#maxWaiting) {
      const limits = `maxConcurrentRuns (${this.#maxRunning}) run and maxQueuedRuns (${this.#maxWaiting}) wait`
      throw new RuntimeOverloadedError(`No more programs can be taken: ${limits}.`)
    }
    return new Promise((resolve) => {
      const waiting = {
        admit: () => {
          signal.removeEventListener('abort', leave)
          resolve(true)
        }
      }
      const leave = () => {
        this.#waiting.delete(waiting)
        resolve(false)
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#waiting.add(waiting)
    })
  }

  /** Gives a slot back, or rather to the one that waits longest. */
  release(): void {
    const [next] = this.#waiting
    if (next === undefined) {
      this.#running -= 1
      return
    }
    this.#waiting.delete(next)
    next.admit()
  }
}
