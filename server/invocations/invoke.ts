import type { EventLog, Row } from '../event-log/event-log.ts'
import { RequestError } from '../errors.ts'
import type { DryRunReport } from '../pipeline/pipeline.ts'
import { runBatch } from '../scheduler/scheduler.ts'
import type { Session } from '../sessions/session.ts'
import type { StepRef, StepRequest } from '../sessions/turns.ts'
import type { Admission } from './admission.ts'
import type { Asker } from './limits/meters.ts'
import type { CallAnswer } from './answer.ts'
import { ToolArgsError } from '../tools/args-error.ts'
import { acceptedWrite } from './call-rows.ts'
import { type CallEngine, type CallPlace, CallRun } from './call-run.ts'
import { type Caller, checkSameCall, type LiveCall } from './live-call.ts'
import type { LiveCalls } from './live-calls.ts'
import { Opening } from './opening.ts'
import { type CallRequest, type ParsedCall, parseCall } from './plan.ts'
import { type Enter, inStep } from './step.ts'
import { type CallReport, readStoredCall, reportOf } from './stored-calls.ts'

/** One plain call (api.md §2). */
export interface InvokeRequest extends CallRequest {
  session: Session
  turn?: number
  step?: number
  /** Who waits for the answer; absent: somebody who does not leave. */
  caller?: Caller
  /** Whose token it came with, and the scope that it reaches: limits count by it. Absent for a call from inside the process. */
  by?: RequestOrigin
  /** The trace that it belongs to, for who observes the pipeline. */
  trace?: unknown
}

export interface RequestOrigin {
  readonly tokenId: string
  readonly scope: string
}

/** What admission goes by; each tool counts once, however many calls of a batch name it (api.md §8). */
export const askerOf = (session: Session, tools: Iterable<string>, by: RequestOrigin | undefined): Asker => ({
  scope: session.scope,
  tools: [...new Set(tools)],
  ...(by === undefined ? {} : { token: by.tokenId, reach: by.scope })
})

export interface InvocationParts {
  engine: CallEngine
  calls: LiveCalls
  log: EventLog
  admission: Admission
  /** Bodies of one batch that may overlap. */
  maxParallel: number
}

/** The calls of this server: each runs at most once per `callId`, whoever asks and how often (api.md §2). */
export class Invocations {
  readonly parts: InvocationParts

  constructor(parts: InvocationParts) {
    this.parts = parts
  }

  /**
   * Runs a call, attaches to it while it runs, or replays its stored answer. Rejects with `CALL_CONFLICT`, the turn and step errors,
   * those of admission, `SHUTTING_DOWN`, or `StoreUnavailableError`; a tool's failure is an answer.
   */
  async invoke(request: InvokeRequest): Promise<CallAnswer> {
    return await this.#begin(request, false).wait(request.caller)
  }

  /** As `invoke`, but tells at once under which id the call runs: for whoever listens to what it says meanwhile. */
  begin(request: InvokeRequest): { callId: string; answer: Promise<CallAnswer> } {
    const live = this.#begin(request, false)
    return { callId: live.identity.callId, answer: live.wait(request.caller) }
  }

  /** As `invoke`, but resolves as soon as the call is stored; it then goes on by itself (api.md §2, `respond-async`). */
  async accept(request: InvokeRequest): Promise<LiveCall> {
    const live = this.#begin(request, true)
    await live.whenStored()
    return live
  }

  /** What the call would meet before its body: neither runs nor logs it, nor asks anybody (api.md §2). */
  async dryRun({ session, ...request }: InvokeRequest, signal: AbortSignal): Promise<DryRunReport> {
    const { callId, name, arguments: args, argumentsError } = parseCall(request)
    const report = await this.parts.engine.pipeline.dryRun({
      callId,
      name,
      arguments: args,
      agent: session,
      signal,
      ...(argumentsError === undefined ? {} : { argumentsError })
    })
    return argumentsError instanceof ToolArgsError ? { ...report, violations: [...argumentsError.violations] } : report
  }

  /** State and result of a call. With `until` it waits for the end of a live one, as long as that signal lets it. */
  async report(session: Session, callId: string, until?: AbortSignal): Promise<CallReport> {
    const live = this.parts.calls.find(session.id, callId)
    if (live !== undefined && until !== undefined) await settledOr(live, until)
    return reportOf(this.parts, session, callId)
  }

  /** Aborts a live call, cooperatively; what has ended stays as it is (api.md §2). */
  async cancel(session: Session, callId: string): Promise<CallReport> {
    this.parts.calls.find(session.id, callId)?.controller.abort(new Error('the call was cancelled'))
    return reportOf(this.parts, session, callId)
  }

  /**
   * Goes on with a call that waited for an approval when the server went down, by its row: policy runs anew, and its ask finds the
   * one that is pending (api.md §7). Its answer goes to the log and to whoever asks for the call.
   */
  async resume(session: Session, row: Row): Promise<LiveCall> {
    const { log, calls, admission, engine } = this.parts
    const ref: StepRef = { turn: Number(row['turn']), step: Number(row['step']) }
    const seq = Number(row['call_seq'])
    const page = await log.read({ session: session.id, after: seq - 1, limit: 1 })
    const data = page.events[0]?.data as { callId: string; name: string; arguments: string } | undefined
    if (data === undefined) throw new Error('a waiting call is not in the log')
    const call = parseCall({ callId: data.callId, name: data.name, rawArguments: data.arguments })
    const { live, isNew } = calls.claim(session, call)
    if (!isNew) return live
    live.markStored()
    const slot = admission.readmit(askerOf(session, [call.name], undefined))
    const logged = { seq, startedAt: Number(row['started_at']) }
    const place: CallPlace = { session, ref, slot, opening: new Opening([]), isAccepted: true, logged }
    const run = new CallRun(engine, place, call, live)
    inStep(engine, { session, slot, isPlaced: true }, () => runBatch([run], 1)).catch((error: unknown) =>
      live.reject(error)
    )
    return live
  }

  /** The stored answer of a `callId` that a caller gave. Throws `CALL_CONFLICT`. */
  async replay(session: Session, call: ParsedCall): Promise<CallAnswer | undefined> {
    const stored = await readStoredCall(this.parts.log, session, call.callId)
    if (stored === undefined) return undefined
    checkSameCall(stored, call)
    if (stored.answer === undefined)
      throw new RequestError('STORE_UNAVAILABLE', 'the outcome of this call is not readable')
    return { ...stored.answer, replayed: true }
  }

  #begin(request: InvokeRequest, isAsync: boolean): LiveCall {
    const call = parseCall(request)
    const { live, isNew } = this.parts.calls.claim(request.session, call)
    if (isNew) this.#lead(request, call, live, isAsync).catch((error: unknown) => live.reject(error))
    return live
  }

  async #lead(request: InvokeRequest, call: ParsedCall, live: LiveCall, isAsync: boolean): Promise<void> {
    const { session } = request
    // An id of our own making is new: nothing to look up on the way of every plain call.
    const replayed = call.isNamedByCaller ? await this.replay(session, call) : undefined
    if (replayed !== undefined) return live.resolve(replayed)
    const { engine, admission } = this.parts
    const slot = admission.request(askerOf(session, [call.name], request.by))
    await inStep(engine, { session, slot }, async (enter) => {
      const { signal } = live.controller
      const place = isAsync ? await this.#store(enter, request, call, live) : undefined
      if (!slot.isHeld) {
        // A call that is stored ends with a result, also when its turn never came.
        await slot.wait(signal).catch((error: unknown) => {
          if (place === undefined) throw error
          live.controller.abort(error)
        })
      }
      const { ref, opening, isAccepted } = place ?? { ...enter(stepOf(request, live)), isAccepted: false }
      const { trace } = request
      await runBatch([new CallRun(engine, { session, ref, slot, opening, isAccepted, trace }, call, live)], 1)
    })
  }

  /** Stores a call before it can begin. */
  async #store(
    enter: Enter,
    request: InvokeRequest,
    call: ParsedCall,
    live: LiveCall
  ): Promise<{ ref: StepRef; opening: Opening; isAccepted: boolean }> {
    const { session } = request
    const { ref, opening } = enter(stepOf(request, live))
    opening.add([acceptedWrite(session, ref, call)])
    await opening.first((events, writes) => session.append(events, { writes }))
    live.markStored()
    return { ref, opening, isAccepted: true }
  }
}

function stepOf({ turn, step }: InvokeRequest, { controller }: LiveCall): StepRequest {
  const request: StepRequest = { calls: 1, areAborted: controller.signal.aborted }
  if (turn !== undefined) request.turn = turn
  if (step !== undefined) request.step = step
  return request
}

async function settledOr(live: LiveCall, until: AbortSignal): Promise<void> {
  if (until.aborted) return
  let stop = (): void => undefined
  const stopped = new Promise<void>((resolve) => {
    stop = resolve
  })
  until.addEventListener('abort', stop, { once: true })
  await Promise.race([live.answer.then(stop, stop), stopped])
  until.removeEventListener('abort', stop)
}
