import type { JsonValue } from '../json/lossless.ts'
import type { CallState, ExecutionInput } from '../pipeline/execution.ts'
import type { Dispatched, InFlight, Pipeline } from '../pipeline/pipeline.ts'
import { failureFrom, type ToolResult } from '../pipeline/result.ts'
import type { LaneCall } from './lane.ts'

/** The steps of the pipeline that a lane interleaves. */
export type StagedPipeline = Pick<Pipeline, 'prepare' | 'dispatch' | 'finalize' | 'finish' | 'executionMode'>

/** What a program's run does about one of its calls. */
export interface SubCallEvents {
  started(): void
  /** In the order of submission: what travels up to the outer call. */
  committed(result: ToolResult): void
  /** After the program has the value. Resolves when the next step may be taken. */
  logged(result: ToolResult): Promise<void>
}

/** One `tools.x(args)` of a program: an ordinary execution, whose value, or failure message, settles `answer` (code-mode.md §13.2). */
export class SubCall implements LaneCall {
  readonly answer: Promise<JsonValue>
  readonly #pipeline: StagedPipeline
  readonly #input: ExecutionInput
  readonly #events: SubCallEvents
  #settle!: { resolve: (value: JsonValue) => void; reject: (error: Error) => void }
  #outcome: (Dispatched & { call: InFlight }) | undefined
  /** A fault of the machinery itself: the program must hear of it, and the lane must go on. */
  #fault: ToolResult | undefined

  constructor(pipeline: StagedPipeline, input: ExecutionInput, events: SubCallEvents) {
    this.#pipeline = pipeline
    this.#input = input
    this.#events = events
    this.answer = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
    // A program that has ended waits for nothing.
    this.answer.catch(() => undefined)
  }

  mode(): 'parallel' | 'exclusive' {
    return this.#pipeline.executionMode(this.#input).kind
  }

  async start(): Promise<(() => Promise<void>) | undefined> {
    this.#events.started()
    try {
      const prepared = await this.#prepare()
      if (prepared.stage === 'dispatch') return () => this.#dispatch(prepared.call)
      this.#outcome = prepared
    } catch (error) {
      this.#fault = failureFrom(error)
    }
    return undefined
  }

  async commit(): Promise<void> {
    const result = await this.#finished()
    this.#events.committed(result)
    this.#handOver(result)
    await this.#events.logged(result)
  }

  abandon(): void {
    this.#settle.reject(runIsOver())
  }

  /** A call that is asked about waits for a person as a body does (api.md §7). */
  async #prepare(): ReturnType<StagedPipeline['prepare']> {
    let resume: (() => Promise<void>) | undefined
    let resumed: Promise<void> | undefined
    const onState = (state: CallState): void => {
      if (state === 'running') resumed = resume?.()
      else resume = this.#input.onPersonAwaited?.()
    }
    const prepared = await this.#pipeline.prepare({ ...this.#input, onState })
    await resumed
    return prepared
  }

  async #dispatch(call: InFlight): Promise<void> {
    try {
      this.#outcome = { call, ...(await this.#pipeline.dispatch(call)) }
    } catch (error) {
      this.#fault = failureFrom(error)
    }
  }

  async #finished(): Promise<ToolResult> {
    if (this.#outcome === undefined) return this.#fault!
    const { stage, call, result } = this.#outcome
    return stage === 'post-result' ? this.#pipeline.finalize(call, result) : this.#pipeline.finish(call, result)
  }

  #handOver(result: ToolResult): void {
    if (this.#input.signal.aborted) this.#settle.reject(runIsOver())
    else if (result.isError) this.#settle.reject(new Error(result.error.message))
    else this.#settle.resolve(result.value)
  }
}

/** What a call meets that comes when its program has ended. */
export const runIsOver = (): Error => new Error('the run is over')
