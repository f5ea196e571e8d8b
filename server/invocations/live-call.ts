import type { JsonValue } from '../json/lossless.ts'
import { RequestError } from '../errors.ts'
import type { Session } from '../sessions/session.ts'
import type { CallAnswer } from './answer.ts'

/** What a caller is told of a call (api.md §2). */
export type CallState = 'queued' | 'awaiting-approval' | 'running' | 'done'

/** What makes two requests the same call (api.md §2). */
export interface CallIdentity {
  callId: string
  name: string
  /** Digest of the arguments with keys sorted. */
  argumentsHash: string
}

/** One call, as it came: `raw` is what `tool/call` stores, `arguments` what runs. */
export interface PlannedCall extends CallIdentity {
  arguments: JsonValue
  raw: string
  argumentsError?: Error
}

/** Somebody who waits for an answer, and may leave before it is there (api.md §2, `onDisconnect`). */
export interface Caller {
  abortsWhenLeft: boolean
  onLeft(listener: () => void): void
}

/** A call from its acceptance to its answer. Requests with the same `callId` attach to it. */
export class LiveCall {
  readonly session: Session
  readonly identity: CallIdentity
  readonly controller = new AbortController()
  readonly answer: Promise<CallAnswer>
  /** The server is going down while a person is asked: the call stays pending in the log and goes on after the restart. */
  isLeftPending = false
  #state: CallState = 'queued'
  #settle!: { resolve: (answer: CallAnswer) => void; reject: (error: unknown) => void }
  #waiting = 0
  /** People that its running body, or a call of its program, waits for. */
  #people = 0
  #isStored = false
  #onStored: (() => void)[] = []

  constructor(session: Session, identity: CallIdentity) {
    this.session = session
    this.identity = identity
    this.answer = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
    // Nobody may be waiting when it fails: a caller that left is told by the call's state, not by a rejection.
    this.answer.catch(() => undefined)
  }

  get state(): CallState {
    return this.#state === 'running' && this.#people > 0 ? 'awaiting-approval' : this.#state
  }

  /** It waits and has not run, so that the next run of the server can go on with it; a running body ends with the server. */
  get canBeLeft(): boolean {
    return this.#state === 'awaiting-approval'
  }

  /** Its running body begins to wait for a person; the undo says that this is over. */
  awaitPerson(): () => void {
    this.#people += 1
    return () => {
      this.#people -= 1
    }
  }

  enter(state: 'awaiting-approval' | 'running'): void {
    if (this.#state !== 'done') this.#state = state
  }

  /** The log knows of the call: it cannot get lost any more. */
  markStored(): void {
    this.#isStored = true
    for (const resolve of this.#onStored.splice(0)) resolve()
  }

  /** Resolves when the call is stored; rejects when it ends before that. */
  whenStored(): Promise<void> {
    if (this.#isStored) return Promise.resolve()
    const stored = new Promise<void>((resolve) => this.#onStored.push(resolve))
    return Promise.race([stored, this.answer.then(() => undefined)])
  }

  resolve(answer: CallAnswer): void {
    this.#state = 'done'
    this.#settle.resolve(answer)
  }

  reject(error: unknown): void {
    this.#state = 'done'
    this.#settle.reject(error)
  }

  /** Leaves the call to the next run of the server: who waits is told where to ask for it (reliability.md §3.4). */
  leavePending(): void {
    this.isLeftPending = true
    const location = callPath(this.session.id, this.identity.callId)
    this.reject(new RequestError('SHUTTING_DOWN', undefined, { headers: { location } }))
  }

  /** Waits for the answer. When the last who waits leaves, and says so, the call is aborted; else it goes on (api.md §2). */
  wait(caller?: Caller): Promise<CallAnswer> {
    this.#waiting += 1
    caller?.onLeft(() => {
      this.#waiting -= 1
      if (this.#waiting === 0 && caller.abortsWhenLeft) this.controller.abort(new Error('the caller disconnected'))
    })
    return this.answer
  }
}

/** Where the call can be asked for (api.md §2). */
export const callPath = (session: string, callId: string): string =>
  `/calls/${encodeURIComponent(session)}/${encodeURIComponent(callId)}`

/** Throws `CALL_CONFLICT` when the id names another call (api.md §2). */
export function checkSameCall(known: Pick<CallIdentity, 'name' | 'argumentsHash'>, asked: CallIdentity): void {
  if (known.name === asked.name && known.argumentsHash === asked.argumentsHash) return
  throw new RequestError('CALL_CONFLICT', `callId "${asked.callId}" was used for another call`)
}
