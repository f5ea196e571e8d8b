import type { InFlight } from './execution.ts'
import { messageOf, type ToolResult } from './result.ts'
import type { Warn } from './materialize.ts'

/** The stages of a call that who observes hears of. */
export type ObservedStage = 'pre-execute' | 'guard' | 'dispatch' | 'post-execute' | 'finalize'

/** Watches calls from the outside: it changes nothing about them, and what it throws is contained. */
export interface CallObserver {
  /** A call was made; `trace` is that of its request. */
  opened?(call: InFlight, trace: unknown): void
  /** A stage begins; what is returned is called when it ends, however it does. */
  stage?(call: InFlight, stage: ObservedStage): (() => void) | undefined
  /** Runs wrappers and body, so that what they do can be seen as the call's; `run` is to be called once, at once. */
  within?<T>(call: InFlight, run: () => T): T
  /** The call has its result. */
  closed?(call: InFlight, result: ToolResult): void
}

/** Whoever observes the calls of a pipeline. Without anybody a stage costs one comparison. */
export class CallObservers {
  readonly #warn: Warn
  #observers: readonly CallObserver[] = []

  constructor(warn: Warn) {
    this.#warn = warn
  }

  /** Adds one for the calls to come; before the server serves any. */
  add(observer: CallObserver): void {
    this.#observers = [...this.#observers, observer]
  }

  opened(call: InFlight, trace: unknown): void {
    for (const observer of this.#observers) this.#contained(() => observer.opened?.(call, trace))
  }

  closed(call: InFlight, result: ToolResult): void {
    for (const observer of this.#observers) this.#contained(() => observer.closed?.(call, result))
  }

  during<T>(call: InFlight, stage: ObservedStage, run: () => Promise<T>): Promise<T> {
    return this.#observers.length === 0 ? run() : this.#during(call, stage, run)
  }

  duringSync<T>(call: InFlight, stage: ObservedStage, run: () => T): T {
    if (this.#observers.length === 0) return run()
    const ends = this.#begin(call, stage)
    try {
      return run()
    } finally {
      this.#end(ends)
    }
  }

  within<T>(call: InFlight, run: () => T): T {
    let inner = run
    for (const observer of this.#observers) {
      if (observer.within === undefined) continue
      const outer = inner
      inner = () => observer.within?.(call, outer) as T
    }
    return inner()
  }

  async #during<T>(call: InFlight, stage: ObservedStage, run: () => Promise<T>): Promise<T> {
    const ends = this.#begin(call, stage)
    try {
      return await run()
    } finally {
      this.#end(ends)
    }
  }

  #begin(call: InFlight, stage: ObservedStage): (() => void)[] {
    const ends: (() => void)[] = []
    for (const observer of this.#observers) {
      this.#contained(() => {
        const end = observer.stage?.(call, stage)
        if (end !== undefined) ends.push(end)
      })
    }
    return ends
  }

  #end(ends: (() => void)[]): void {
    for (const end of ends) this.#contained(end)
  }

  #contained(run: () => void): void {
    try {
      run()
    } catch (error) {
      this.#warn('an observer of calls failed', { error: messageOf(error) })
    }
  }
}
