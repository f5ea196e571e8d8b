import type { JsonValue } from '../json/lossless.ts'
import { type CodedError, RequestError } from '../errors.ts'
import type { CallAnswer } from './answer.ts'

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
  signal: AbortSignal
  argumentsError?: CodedError
}

/** A call from its acceptance to its answer. Requests with the same `callId` attach to it. */
export class LiveCall {
  readonly identity: CallIdentity
  readonly controller = new AbortController()
  readonly answer: Promise<CallAnswer>
  state: CallState = 'queued'
  #settle!: { resolve: (answer: CallAnswer) => void; reject: (error: unknown) => void }
  #waiting = 0
  #abortsWhenLeft = false

  constructor(identity: CallIdentity) {
    this.identity = identity
    this.answer = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
    // Nobody may be waiting when it fails: a caller that left is told by the call's state, not by a rejection.
    this.answer.catch(() => undefined)
  }

  resolve(answer: CallAnswer): void {
    this.state = 'done'
    this.#settle.resolve(answer)
  }

  reject(error: unknown): void {
    this.state = 'done'
    this.#settle.reject(error)
  }

  /**
   * Waits for the answer. When the last waiting caller leaves (its `left` signal aborts) the call is aborted if `abortsWhenLeft`, which
   * the latest caller decides, else it goes on (api.md §2).
   */
  wait(caller?: { left: AbortSignal; abortsWhenLeft: boolean }): Promise<CallAnswer> {
    this.#waiting += 1
    if (caller === undefined) return this.answer
    this.#abortsWhenLeft = caller.abortsWhenLeft
    const onLeft = (): void => {
      this.#waiting -= 1
      if (this.#waiting === 0 && this.#abortsWhenLeft) this.controller.abort(new Error('the caller disconnected'))
    }
    if (caller.left.aborted) onLeft()
    else caller.left.addEventListener('abort', onLeft, { once: true })
    const stop = (): void => caller.left.removeEventListener('abort', onLeft)
    this.answer.then(stop, stop)
    return this.answer
  }
}

/** Throws `CALL_CONFLICT` when the id names another call (api.md §2). */
export function checkSameCall(known: Pick<CallIdentity, 'name' | 'argumentsHash'>, asked: CallIdentity): void {
  if (known.name === asked.name && known.argumentsHash === asked.argumentsHash) return
  throw new RequestError('CALL_CONFLICT', `callId "${asked.callId}" was used for another call`)
}
