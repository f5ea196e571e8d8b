import { SharedTurn } from '../threads/shared-turn.ts'

/** Of all programs: steps that take no time of their own may not keep the server's loop. */
const turn = new SharedTurn()

/** One call of a program, as its lane needs it. None of the three steps may reject: what goes wrong is the call's own outcome. */
export interface LaneCall {
  /** Read when the call is about to start: a registry change can turn a waiting call exclusive (code-mode.md §13.4). */
  mode(): 'parallel' | 'exclusive'
  /** Runs the call's policy. Returns the body to launch, or nothing when the outcome is settled already. */
  start(): Promise<(() => Promise<void>) | undefined>
  /** Post-execute, observers, and the value to the program. */
  commit(): Promise<void>
  /** The run ended before the call was started. */
  abandon(): void
}

interface Started {
  readonly call: LaneCall
  readonly isExclusive: boolean
  isFinished: boolean
}

/**
 * The order of one program's calls (code-mode.md §13.4): all steps but the bodies happen one after another, in the order of submission.
 * Bodies of parallel calls overlap, up to `maxParallel`; an exclusive call is alone from its start until after its commit.
 */
export class Lane {
  readonly #maxParallel: number
  readonly #queued: LaneCall[] = []
  readonly #started: Started[] = []
  #running = 0
  #isClosed = false
  #isDriving = false
  #driven: Promise<void> = Promise.resolve()
  #wake: (() => void) | undefined

  constructor(maxParallel: number) {
    if (!Number.isSafeInteger(maxParallel) || maxParallel < 1) {
      throw new RangeError(`maxParallelSubCalls must be a positive integer, not ${String(maxParallel)}`)
    }
    this.#maxParallel = maxParallel
  }

  submit(call: LaneCall): void {
    this.#queued.push(call)
    this.#move()
  }

  /** From now on nothing is started: what waits is abandoned. */
  close(): void {
    this.#isClosed = true
    this.#move()
  }

  /** Resolves once no call is queued, running or uncommitted. */
  async whenQuiet(): Promise<void> {
    await this.#driven
  }

  #move(): void {
    if (this.#isDriving) return this.#wake?.()
    this.#isDriving = true
    this.#driven = this.#drive()
  }

  async #drive(): Promise<void> {
    while (this.#queued.length > 0 || this.#started.length > 0) {
      const later = turn.next()
      if (later !== undefined) await later
      const [oldest] = this.#started
      const [next] = this.#queued
      if (oldest?.isFinished) {
        await oldest.call.commit()
        // Only now is the barrier of an exclusive call lifted.
        this.#started.shift()
      } else if (next !== undefined && this.#isClosed) {
        this.#queued.shift()
        next.abandon()
      } else {
        const started = next && this.#take(next)
        // Nothing is awaited between looking and listening: a body that ended in between would wake nobody.
        await (started ? this.#launch(started) : this.#whenMoved())
      }
    }
    this.#isDriving = false
  }

  async #whenMoved(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#wake = resolve
    })
    this.#wake = undefined
  }

  /** Takes the call out of the queue, if it may start now. */
  #take(call: LaneCall): Started | undefined {
    // An exclusive call is alone among the started ones, as it waits for those before it.
    if (this.#started[0]?.isExclusive) return undefined
    const isExclusive = call.mode() === 'exclusive'
    if (this.#running >= (isExclusive ? 1 : this.#maxParallel)) return undefined
    this.#queued.shift()
    const started: Started = { call, isExclusive, isFinished: false }
    this.#started.push(started)
    return started
  }

  async #launch(started: Started): Promise<void> {
    const body = await started.call.start()
    if (body === undefined) {
      started.isFinished = true
      return
    }
    this.#running += 1
    void body().then(() => {
      started.isFinished = true
      this.#running -= 1
      this.#wake?.()
    })
  }
}
