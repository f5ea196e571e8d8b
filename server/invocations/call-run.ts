import { randomUUID } from 'node:crypto'
import type { LiveEvents } from '../events/vocabulary.ts'
import type { NewEvent, StoredEvent, TableWrite } from '../event-log/event-log.ts'
import type { JsonValue } from '../json/lossless.ts'
import { parseJson } from '../json/parse-text.js'
import { stringifyJson } from '../json/serialize.ts'
import type { StrikeOut } from '../json/strike-out.ts'
import { abortedBeforeDispatch } from '../pipeline/cancellation.ts'
import type { ExecutionInput } from '../pipeline/execution.ts'
import type { Dispatched, InFlight, Pipeline } from '../pipeline/pipeline.ts'
import type { ToolResult } from '../pipeline/result.ts'
import type { ScheduledCall } from '../scheduler/scheduler.ts'
import type { Session } from '../sessions/session.ts'
import type { StepRef } from '../sessions/turns.ts'
import type { Slot } from './slot.ts'
import { type CallAnswer, resultEventData, type StoredOutcome, storedOutcome } from './answer.ts'
import { doneWrite, startedWrite } from './call-rows.ts'
import type { LiveCall, PlannedCall } from './live-call.ts'
import type { LiveCalls } from './live-calls.ts'
import type { Opening } from './opening.ts'

/** What a call needs of the engine. */
export interface CallEngine {
  pipeline: Pipeline
  calls: LiveCalls
  publish<K extends keyof LiveEvents>(type: K, event: LiveEvents[K]): void
  /** Applied to every result, so that its answer is what a replay of it will be. */
  strikeOut?: StrikeOut | undefined
}

/** Where a call stands. */
export interface CallPlace {
  session: Session
  ref: StepRef
  /** Given back while a person is asked. */
  slot: Slot
  /** What the first append of the step begins with; whoever appends first takes it. */
  opening: Opening
  /** Its `tool/call`, when an earlier run of the server wrote it. Times are epoch milliseconds. */
  logged?: { seq: number; startedAt: number }
  /** The row was written as `accepted` already, or with the opening. */
  isAccepted: boolean
  /** The trace that its request belongs to. */
  trace?: unknown
  /** Called just before the result is appended: the last call of a batch closes its step. */
  beforeResult?: () => void
}

const notStarted = { effect: 'none', retryable: true } as const

/**
 * One call between the log and the pipeline: `tool/call` is appended before policy runs and acknowledged before the body may
 * (core.md §22.2); `tool/result` is appended, with the stored outcome, before anybody gets it.
 */
export class CallRun implements ScheduledCall {
  readonly #engine: CallEngine
  readonly #place: CallPlace
  readonly #plan: PlannedCall
  readonly #live: LiveCall
  readonly #startedAt: number
  readonly #startedMs = performance.now()
  #durationMs = 0
  #logged: Promise<number> | undefined
  /** Ends the pause of its place while it is asked about. */
  #comeBack: (() => void) | undefined
  #outcome: ({ call: InFlight } & Dispatched) | undefined

  constructor(engine: CallEngine, place: CallPlace, plan: PlannedCall, live: LiveCall) {
    this.#engine = engine
    this.#place = place
    this.#plan = plan
    this.#live = live
    this.#startedAt = place.logged?.startedAt ?? Date.now()
  }

  /** A call that is in the log already has its outcome still to come, whatever happens to it. */
  get isAborted(): boolean {
    return this.#signal.aborted && this.#place.logged === undefined
  }

  mode(): 'parallel' | 'exclusive' {
    return this.#engine.pipeline.executionMode(this.#input()).kind
  }

  async start(): Promise<(() => Promise<void>) | undefined> {
    const known = this.#place.logged
    const logged = known === undefined ? this.#appendCall() : Promise.resolve(known.seq)
    // A refused append must stop the call also while policy is still thinking.
    logged.catch((error: unknown) => this.#live.controller.abort(error))
    this.#logged = logged
    this.#live.enter('running')
    const prepared = await this.#engine.pipeline.prepare(this.#input())
    // The call waits for the next run of the server; the calls beside it go on.
    if (this.#live.isLeftPending) return undefined
    if (prepared.stage !== 'dispatch') {
      this.#outcome = prepared
      return undefined
    }
    await this.#place.slot.resume(this.#signal)
    return async () => {
      await logged
      this.#outcome = { call: prepared.call, ...(await this.#engine.pipeline.dispatch(prepared.call)) }
    }
  }

  async commit(): Promise<void> {
    if (this.#live.isLeftPending) return
    const outcome = this.#outcome
    if (outcome === undefined || this.#logged === undefined)
      throw new Error('a call is committed before it has an outcome')
    const callSeq = await this.#logged
    const { pipeline } = this.#engine
    const result = this.#struck(
      outcome.stage === 'post-result'
        ? await pipeline.finalize(outcome.call, outcome.result)
        : pipeline.finish(outcome.call, outcome.result)
    )
    const failure = {
      effect: pipeline.effectOf(outcome.call, result),
      retryable: pipeline.isRetryable(outcome.call, result)
    }
    const stored = this.#withNotices(storedOutcome(result, failure))
    const answer = await this.#settle(result, stored, callSeq, (event, following) =>
      this.#place.session.append([event], { writes: [this.#doneWrite(stored, 0)], following, closing: true })
    )
    this.#tell(answer)
    this.#live.resolve(answer)
  }

  /** The durable pair of a call that never started: no hook, finalizer or observer sees it, nor who follows `tools/result` (core.md §15.3, §22.5). */
  async skip(): Promise<void> {
    const result = abortedBeforeDispatch()
    const stored = storedOutcome(result, notStarted)
    const { opening, session } = this.#place
    // What closes the step of others may use the reserve of a full disk, what opens one may not: then the opening must be there first.
    const closing = opening.isTaken
    if (closing) await opening.stored()
    const answer = await opening.first((events, writes) => {
      const at = events.length
      return this.#settle(result, stored, { sameAppend: at }, (event, following) =>
        session.append([...events, this.#callEvent(), event], {
          writes: [
            ...writes,
            startedWrite(this.#place, this.#plan, { seqOf: at, startedAt: this.#startedAt }),
            this.#doneWrite(stored, at + 1)
          ],
          following,
          closing
        })
      )
    })
    this.#live.resolve(answer)
  }

  #struck(result: ToolResult): ToolResult {
    const { strikeOut } = this.#engine
    if (strikeOut === undefined) return result
    const text = stringifyJson(result as unknown as JsonValue)
    const struck = strikeOut(text)
    return struck === text ? result : (parseJson(struck) as unknown as ToolResult)
  }

  /** Contexts that came between calls appear in the next answer (api.md §2), and so in its replays. */
  #withNotices(outcome: StoredOutcome): StoredOutcome {
    const notices = this.#place.session.takeUndelivered()
    if (notices.length === 0) return outcome
    return { ...outcome, additionalContexts: [...notices, ...(outcome.additionalContexts ?? [])] }
  }

  async #settle(
    result: ToolResult,
    outcome: StoredOutcome,
    callSeq: number | { sameAppend: number },
    append: (event: NewEvent, following: () => NewEvent[]) => Promise<readonly StoredEvent[]>
  ): Promise<CallAnswer> {
    const { session, ref } = this.#place
    this.#place.beforeResult?.()
    this.#durationMs = Math.round((performance.now() - this.#startedMs) * 1000) / 1000
    for (const context of result.additionalContexts ?? []) session.queueContext(context, { isDelivered: true })
    const resultEvent: NewEvent = {
      type: 'tool/result',
      data: resultEventData({ ...ref, callId: this.#plan.callId, messageId: randomUUID() }, result),
      surfaceOp: 'append',
      sourceEventSeqs: [callSeq]
    }
    const following = (): NewEvent[] =>
      session.turns.leave(ref, {
        concludes: outcome.concludesTurn === true,
        hasQueuedContexts: session.hasQueuedContexts
      })
    const stored = await append(resultEvent, following)
    const event = stored.find(({ type }) => type === 'tool/result')
    const { callId, name } = this.#plan
    const answer: CallAnswer = {
      callId,
      name,
      scope: session.scope.id,
      session: session.id,
      callSeq: event?.sourceEventSeqs?.[0] ?? -1,
      resultSeq: event?.seq ?? -1,
      startedAt: this.#startedAt,
      durationMs: this.#durationMs,
      isError: result.isError,
      ...outcome,
      content: result.content
    }
    if (result.meta !== undefined) answer.meta = result.meta
    return answer
  }

  #tell({ callId, name, scope, session, isError, error }: CallAnswer): void {
    const told: LiveEvents['tools/result'] = { callId, name, scope, session, isError }
    if (error !== undefined) told.error = error
    this.#engine.publish('tools/result', told)
  }

  async #appendCall(): Promise<number> {
    const { opening, session, isAccepted } = this.#place
    const isAlone = opening.isTaken && !isAccepted
    const stored = await opening.first((events, writes) =>
      session.append([...events, this.#callEvent()], {
        writes: [
          ...writes,
          startedWrite(this.#place, this.#plan, { seqOf: events.length, startedAt: this.#startedAt })
        ],
        isRevocable: isAlone
      })
    )
    this.#live.markStored()
    return stored.at(-1)?.seq ?? -1
  }

  #callEvent(): NewEvent {
    const { turn, step } = this.#place.ref
    const { callId, name, raw } = this.#plan
    return { type: 'tool/call', data: { turn, step, callId, name, arguments: raw } }
  }

  #doneWrite(outcome: StoredOutcome, seqOf: number): TableWrite {
    return doneWrite(this.#place.session, this.#plan, { outcome, seqOf, durationMs: this.#durationMs })
  }

  get #signal(): AbortSignal {
    return this.#live.controller.signal
  }

  #identity(): { callId: string; name: string; scope: string; session: string } {
    const { session } = this.#place
    return { callId: this.#plan.callId, name: this.#plan.name, scope: session.scope.id, session: session.id }
  }

  #input(): ExecutionInput {
    const { callId, name } = this.#plan
    return {
      callId,
      name,
      arguments: this.#plan.arguments,
      agent: this.#place.session,
      signal: this.#signal,
      trace: this.#place.trace,
      ...(this.#plan.argumentsError === undefined ? {} : { argumentsError: this.#plan.argumentsError }),
      ...(this.#place.logged === undefined ? {} : { isAsked: true }),
      onProgress: (chunk) => this.#engine.publish('tool/progress', { ...this.#identity(), chunk }),
      onPersonAwaited: () => {
        const undos = [this.#place.slot.pause(), this.#live.awaitPerson()]
        return () => {
          for (const undo of undos) undo()
          return this.#place.slot.resume(this.#signal)
        }
      },
      onState: (state) => {
        if (state === 'running') {
          this.#comeBack?.()
          return this.#live.enter(state)
        }
        this.#comeBack = this.#place.slot.pause()
        this.#engine.calls.awaitsApproval(this.#live)
      }
    }
  }
}
