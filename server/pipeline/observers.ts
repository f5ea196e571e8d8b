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
    for (const observer of this.#observers) {
      if (observer.opened !== undefined) this.#contained(() => observer.opened?.(call, trace))
    }
  }

  closed(call: InFlight, result: ToolResult): void {
    for (const observer of this.#observers) {
      if (observer.closed !== undefined) this.#contained(() => observer.closed?.(call, result))
    }
  }

  duringSync<T>(call: InFlight, stage: ObservedStage, run: () => T): T {
    const end = this.begin(call, stage)
    try {
      return run()
    } finally {
      this.end(end)
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

  /** A stage begins: what is returned is to be given to `end` when it has ended, however it did. */
  begin(call: InFlight, stage: ObservedStage): (() => void) | undefined {
    let ends: (() => void) | undefined
    for (const observer of this.#observers) {
      let end: (() => void) | undefined
      try {
        end = observer.stage?.(call, stage)
      } catch (error) {
        this.#failed(error)
      }
      const earlier = ends
      const own = end
      if (earlier === undefined || own === undefined) ends = own ?? earlier
      else {
        ends = () => {
          this.#contained(earlier)
          this.#contained(own)
        }
      }
    }
    return ends
  }

  end(end: (() => void) | undefined): void {
    if (end !== undefined) this.#contained(end)
  }

  #contained(run: () => void): void {
    try {
      run()
    } catch (error) {
      this.#failed(error)
    }
  }

  #failed(error: unknown): void {
    this.#warn('an observer of calls failed', { error: messageOf(error) })
  }
}
