import type { EventLog } from '../event-log/event-log.ts'
import { RequestError } from '../errors.ts'
import { runBatch } from '../scheduler/scheduler.ts'
import type { Session } from '../sessions/session.ts'
import type { CallAnswer } from './answer.ts'
import { type CallEngine, CallRun } from './call-run.ts'
import { checkSameCall, LiveCall } from './live-call.ts'
import { type CallRequest, type ParsedCall, parseCall } from './plan.ts'
import { readStoredCall } from './stored-calls.ts'

/** One plain call (api.md §2). */
export interface InvokeRequest extends CallRequest {
  session: Session
  turn?: number
  step?: number
  /** The caller's connection, and whether the call ends with it (api.md §2, `onDisconnect`). */
  caller?: { left: AbortSignal; abortsWhenLeft: boolean }
}

/** The calls of this server: each runs at most once per `callId`, whoever asks and how often (api.md §2). */
export class Invocations {
  readonly #engine: CallEngine
  readonly #log: EventLog
  readonly #live = new Map<string, LiveCall>()
  #isRefusing = false

  constructor(engine: CallEngine, log: EventLog) {
    this.#engine = engine
    this.#log = log
  }

  /** Calls accepted and not yet answered. */
  get running(): number {
    return this.#live.size
  }

  find(session: Session, callId: string): LiveCall | undefined {
    return this.#live.get(keyOf(session, callId))
  }

  /** From now on new calls get `503 SHUTTING_DOWN`. */
  refuseNew(): void {
    this.#isRefusing = true
  }

  abortAll(reason: Error): void {
    for (const call of this.#live.values()) call.controller.abort(reason)
  }

  /** Resolves when no call is live. */
  async whenQuiet(): Promise<void> {
    while (this.#live.size > 0) await Promise.allSettled([...this.#live.values()].map((call) => call.answer))
  }

  /**
   * Runs a call, attaches to it while it runs, or replays its stored answer. Rejects with `CALL_CONFLICT`, the turn and step errors,
   * `SHUTTING_DOWN`, or `StoreUnavailableError`; a tool's failure is an answer.
   */
  async invoke(request: InvokeRequest): Promise<CallAnswer> {
    const call = parseCall(request)
    const { live, isNew } = this.claim(request.session, call)
    if (isNew) void this.#lead(request, call, live)
    return live.wait(request.caller)
  }

  /** The live call of this id, made when there is none. Throws `CALL_CONFLICT` when the id names another call. */
  claim(session: Session, call: ParsedCall): { live: LiveCall; isNew: boolean } {
    const key = keyOf(session, call.callId)
    const known = this.#live.get(key)
    if (known !== undefined) {
      checkSameCall(known.identity, call)
      return { live: known, isNew: false }
    }
    if (this.#isRefusing) throw new RequestError('SHUTTING_DOWN', undefined, { headers: { 'retry-after': '1' } })
    const live = new LiveCall({ callId: call.callId, name: call.name, argumentsHash: call.argumentsHash })
    this.#live.set(key, live)
    const release = session.hold()
    const done = (): void => {
      this.#live.delete(key)
      release()
    }
    live.answer.then(done, done)
    return { live, isNew: true }
  }

  /** The stored answer of a `callId` that a caller gave. Throws `CALL_CONFLICT`. */
  async replay(session: Session, call: ParsedCall): Promise<CallAnswer | undefined> {
    if (!call.isNamedByCaller) return undefined
    const stored = await readStoredCall(this.#log, session, call.callId)
    if (stored === undefined) return undefined
    checkSameCall(stored, call)
    if (stored.answer === undefined)
      throw new RequestError('STORE_UNAVAILABLE', 'the outcome of this call is not readable')
    return { ...stored.answer, replayed: true }
  }

  async #lead(request: InvokeRequest, call: ParsedCall, live: LiveCall): Promise<void> {
    try {
      const { session } = request
      const replayed = await this.replay(session, call)
      if (replayed !== undefined) return live.resolve(replayed)
      const { ref, events } = session.enter({
        calls: 1,
        ...(request.turn === undefined ? {} : { turn: request.turn }),
        ...(request.step === undefined ? {} : { step: request.step })
      })
      const { signal } = live.controller
      const place = { session, ref, opening: () => ({ events, writes: [] }) }
      await runBatch([new CallRun(this.#engine, place, { ...call, signal }, live)], { maxParallel: 1, signal })
    } catch (error) {
      live.reject(error)
    }
  }
}

const keyOf = (session: Session, callId: string): string => `${session.id}\n${callId}`
