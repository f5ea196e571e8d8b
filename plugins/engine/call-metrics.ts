import type { InFlight } from '../../server/pipeline/execution.ts'
import type { CallObserver, ObservedStage } from '../../server/pipeline/observers.ts'
import type { ToolResult } from '../../server/pipeline/result.ts'
import type { MetricSet } from './metric-set.ts'

interface ToolCounts {
  readonly label: string
  readonly duration: (seconds: number) => void
  /** By the stage of the failure, `none` for a success. */
  readonly calls: Map<string, () => void>
}

/**
 * Counts calls and times them. Names come from clients and plugins, so their number is bounded: tools beyond the first `maxTools` count
 * as `other`, and a name that no tool has as `unknown`.
 */
export class CallMetrics implements CallObserver {
  readonly #metrics: MetricSet
  readonly #maxTools: number
  readonly #tools = new Map<string, ToolCounts>()
  readonly #stages = new Map<ObservedStage, (seconds: number) => void>()
  #named = 0

  constructor(metrics: MetricSet, maxTools: number) {
    this.#metrics = metrics
    this.#maxTools = maxTools
  }

  stage(_call: InFlight, stage: ObservedStage): (() => void) | undefined {
    // The others are done at once: to time them would cost more than they do.
    if (stage === 'guard' || stage === 'finalize') return undefined
    let observe = this.#stages.get(stage)
    if (observe === undefined) {
      observe = this.#metrics.observing('toolwright_stage_duration_seconds', [stage])
      this.#stages.set(stage, observe)
    }
    const took = observe
    const startedAt = performance.now()
    return () => took((performance.now() - startedAt) / 1000)
  }

  closed({ exec, tool, stoppedAt, openedAt }: InFlight, { isError }: ToolResult): void {
    // A tool of that very name may be called `unknown` or `other`: then it shares the label.
    const counts = this.#countsOf(tool === undefined ? 'unknown' : exec.name)
    counts.duration((performance.now() - openedAt) / 1000)
    const stage = isError ? (stoppedAt ?? 'result') : 'none'
    let count = counts.calls.get(stage)
    if (count === undefined) {
      const outcome = isError ? 'failure' : 'success'
      count = this.#metrics.counting('toolwright_calls_total', [counts.label, outcome, stage])
      counts.calls.set(stage, count)
    }
    count()
  }

  #countsOf(name: string): ToolCounts {
    const known = this.#tools.get(name)
    if (known !== undefined) return known
    const isShared = name === 'unknown' || name === 'other'
    if (!isShared && this.#named >= this.#maxTools) return this.#countsOf('other')
    if (!isShared) this.#named += 1
    const made: ToolCounts = {
      label: name,
      duration: this.#metrics.observing('toolwright_call_duration_seconds', [name]),
      calls: new Map()
    }
    this.#tools.set(name, made)
    return made
  }
}
