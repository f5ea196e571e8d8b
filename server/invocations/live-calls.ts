import { RequestError } from '../errors.ts'
import type { Session } from '../sessions/session.ts'
import { type CallIdentity, checkSameCall, LiveCall } from './live-call.ts'

/** The calls accepted and not yet answered, by session and id. */
export class LiveCalls {
  readonly #calls = new Map<string, LiveCall>()
  #isRefusing = false

  get size(): number {
    return this.#calls.size
  }

  find(sessionId: string, callId: string): LiveCall | undefined {
    return this.#calls.get(keyOf(sessionId, callId))
  }

  /** The live call of this id, made when there is none. Throws `CALL_CONFLICT`, or `SHUTTING_DOWN` for a new one. */
  claim(session: Session, call: CallIdentity): { live: LiveCall; isNew: boolean } {
    const key = keyOf(session.id, call.callId)
    const known = this.#calls.get(key)
    if (known !== undefined) {
      checkSameCall(known.identity, call)
      return { live: known, isNew: false }
    }
    if (this.#isRefusing) throw new RequestError('SHUTTING_DOWN')
    const live = new LiveCall(session, call)
    this.#calls.set(key, live)
    const release = session.hold()
    const done = (): void => {
      this.#calls.delete(key)
      release()
    }
    live.answer.then(done, done)
    return { live, isNew: true }
  }

  /** Aborts the calls for which `isMeant` holds; each ends as its body lets it. */
  abort(reason: Error, isMeant: (call: LiveCall) => boolean = () => true): void {
    for (const call of this.#calls.values()) if (isMeant(call)) call.controller.abort(reason)
  }

  /** Resolves when none of the calls for which `isMeant` holds is live. */
  async whenQuiet(isMeant: (call: LiveCall) => boolean = () => true): Promise<void> {
    for (let waiting = this.#answers(isMeant); waiting.length > 0; waiting = this.#answers(isMeant)) {
      await Promise.allSettled(waiting)
    }
  }

  /**
   * The server goes down (reliability.md §3.4): no new calls, those not started yet are aborted, and those that wait for a person stay
   * pending for the next run.
   */
  beginShutdown(): void {
    this.#isRefusing = true
    this.abort(new Error('the server is shutting down'), ({ state }) => state === 'queued')
    for (const call of this.#calls.values()) if (call.canBeLeft) call.leavePending()
  }

  /** A call begins to wait for a person. */
  awaitsApproval(call: LiveCall): void {
    call.enter('awaiting-approval')
    if (this.#isRefusing) call.leavePending()
  }

  #answers(isMeant: (call: LiveCall) => boolean): Promise<unknown>[] {
    return [...this.#calls.values()].filter(isMeant).map(({ answer }) => answer)
  }
}

const keyOf = (sessionId: string, callId: string): string => `${sessionId}\n${callId}`
