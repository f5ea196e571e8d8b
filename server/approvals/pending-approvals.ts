import { CodedError, RequestError } from '../errors.ts'
import { type EventLog, StoreUnavailableError, type TableWrite } from '../event-log/event-log.ts'
import type { Execution } from '../pipeline/execution.ts'
import type { Session } from '../sessions/session.ts'
import type { Sessions } from '../sessions/sessions.ts'
import { type Approval, type Decision, decidedColumns, fromRow, toRow } from './approval.ts'
import { type Clock, PendingApproval, systemClock } from './pending-approval.ts'

export interface PendingApprovalsOptions {
  log: EventLog
  sessions: Sessions
  /**
   * Goes on with the call of an approval that outlived it: the call asks again, and finds its approval here. `over` settles with the
   * call. Undefined: it cannot go on, and its approval is closed as cancelled (api.md §7).
   */
  resumeCall: (session: Session, approval: Approval) => Promise<{ over: Promise<unknown> } | undefined>
  /** Hears of what was contained. */
  warn: (message: string, details: Record<string, unknown>) => void
  clock?: Clock
  /**
   * Approvals that may be pending at a time, 10,000 if absent: each holds its call's arguments, and a call that waits holds no place
   * (api.md §7), so nothing else limits them.
   */
  maxPending?: number
}

class TooManyApprovalsError extends CodedError {
  constructor() {
    super('OVERLOADED', 'too many approvals are waiting for a decision already')
  }
}

/**
 * What is pending, in memory and in the log: stores asks and decisions, and brings approvals together with their calls again after the
 * server, or its store, was gone.
 */
export class PendingApprovals {
  readonly clock: Clock
  readonly #options: PendingApprovalsOptions
  readonly #pending = new Map<string, PendingApproval>()
  /** Approvals whose calls are being resumed and have not asked again yet, decided by now or not. */
  readonly #resumed = new Map<string, PendingApproval>()
  #isClosing = false

  constructor(options: PendingApprovalsOptions) {
    this.#options = options
    this.clock = options.clock ?? systemClock
  }

  find(id: string): PendingApproval | undefined {
    return this.#pending.get(id)
  }

  values(): PendingApproval[] {
    return [...this.#pending.values()]
  }

  /** Its call is left to the next run of the server: nothing is decided here any more. */
  isLeft(pending: PendingApproval): boolean {
    return this.#isClosing && pending.isLasting
  }

  /** Stores an ask. Rejects when the store does not take it. */
  async add(
    approval: Approval,
    session: Session,
    { exec, isInBody }: { exec: Execution | undefined; isInBody: boolean }
  ): Promise<PendingApproval> {
    if (this.#pending.size >= (this.#options.maxPending ?? 10_000)) throw new TooManyApprovalsError()
    const { id, kind, toolName, callId, reason } = approval
    const pending = new PendingApproval(approval)
    pending.exec = exec
    pending.isInBody = isInBody
    // Only a call that is in the log by itself can wait there.
    pending.isLasting = !isInBody && exec?.parent === undefined && session.isRecorded(callId)
    this.#pending.set(id, pending)
    const data = {
      id,
      ...(kind === 'tool' ? {} : { kind }),
      toolName,
      callId,
      ...(reason === undefined ? {} : { reason })
    }
    try {
      await session.append([{ type: 'approval/asked', data }], {
        writes: [
          { table: 'approvals', op: 'insert', row: toRow(approval) },
          ...(pending.isLasting ? [callState(approval, 'started', 'awaiting-approval')] : [])
        ]
      })
    } catch (error) {
      // Whether the store has it shows when it is there again.
      if (error instanceof StoreUnavailableError) pending.isOrphan = true
      else this.#pending.delete(id)
      throw error
    }
    pending.isStored = true
    this.#watch(pending)
    return pending
  }

  /** The approval that this call waits for already, if it was resumed. */
  takeResumed(session: Session, callId: string, exec: Execution): PendingApproval | undefined {
    const key = keyOf({ session: session.id, callId })
    const pending = exec.parent === undefined ? this.#resumed.get(key) : undefined
    if (pending === undefined) return undefined
    this.#resumed.delete(key)
    pending.exec = exec
    return pending
  }

  /**
   * Stores a decision, once. Rejects with `SHUTTING_DOWN`, or when it cannot be stored, and the approval is pending as before; its call
   * has failed with the store then.
   */
  async settle(pending: PendingApproval, session: Session, decision: Decision): Promise<Decision> {
    if (this.isLeft(pending)) throw new RequestError('SHUTTING_DOWN')
    pending.beginStoring()
    const { approval } = pending
    const { outcome, by, arguments: edited } = decision
    const data = {
      id: approval.id,
      outcome,
      ...(by === undefined ? {} : { by }),
      ...(edited === undefined ? {} : { arguments: edited })
    }
    const where = { state: 'pending', hash: approval.hash }
    try {
      await session.append([{ type: 'approval/decided', data }], {
        // From here on the call may have run: a crash must not run it again (reliability.md, decisions).
        writes: [
          { table: 'approvals', op: 'update', row: decidedColumns(approval.id, decision), where },
          ...(pending.isLasting ? [callState(approval, 'awaiting-approval', 'started')] : [])
        ],
        closing: true
      })
    } catch (error) {
      pending.isOrphan = true
      pending.reject(error)
      throw error
    }
    this.#pending.delete(approval.id)
    pending.resolve(decision)
    return decision
  }

  async expire(pending: PendingApproval): Promise<void> {
    if (!this.#isClosing) await this.#close(pending, 'unavailable')
  }

  async #close(pending: PendingApproval, outcome: 'unavailable' | 'cancelled'): Promise<void> {
    if (pending.isSettled) return
    try {
      const session = await this.attach(pending)
      if (!pending.isSettled) await this.settle(pending, session, { outcome, at: this.clock.now() })
    } catch (error) {
      this.#options.warn('an approval could not be closed', { err: error, approval: pending.approval.id })
    }
  }

  /** The session of a pending approval, with its call waiting in it. Throws `UNKNOWN_APPROVAL` when there is none any more. */
  async attach(pending: PendingApproval): Promise<Session> {
    const { id, session: sessionId } = pending.approval
    const { sessions, log } = this.#options
    // A session that failed is put right first, once its calls have ended.
    const session = await sessions.find(sessionId)
    if (session !== undefined && !pending.isOrphan) return session
    const [row] = session === undefined ? [] : await log.rows('approvals', { id, state: 'pending' }, 1)
    if (session === undefined || row === undefined) {
      this.#pending.delete(id)
      throw new RequestError('UNKNOWN_APPROVAL')
    }
    if (pending.isOrphan) await this.#resume(pending, session)
    return session
  }

  /** Takes up what the last server left pending. To be called once, when tools and policies are there. */
  async restore(): Promise<void> {
    for (const row of await this.#options.log.rows('approvals', { state: 'pending' }, 100_000)) {
      const pending = new PendingApproval(fromRow(row))
      pending.isStored = true
      pending.isOrphan = true
      this.#pending.set(pending.approval.id, pending)
    }
    await this.reclaim()
  }

  /** Takes up what was pending when the store failed; to be called when the log is there again. */
  async reclaim(): Promise<void> {
    for (const pending of this.values()) {
      if (!pending.isOrphan) continue
      const { id, session } = pending.approval
      await this.attach(pending).catch((error: unknown) =>
        this.#options.warn('a pending approval cannot be taken up', { err: error, approval: id, session })
      )
    }
  }

  /** The server goes down (reliability.md §3.4): what can wait for its next run is left to it, and no running body waits any longer. */
  beginShutdown(): void {
    this.#isClosing = true
    for (const pending of this.values()) {
      if (pending.isInBody && pending.isStored) void this.#close(pending, 'cancelled')
      if (pending.isLasting && !pending.isSettled) pending.reject(new RequestError('SHUTTING_DOWN'))
    }
  }

  /** Nobody is asked any more. */
  get isClosing(): boolean {
    return this.#isClosing
  }

  /** Stops the clocks: what is pending stays so in the log. */
  dispose(): void {
    this.#isClosing = true
    for (const pending of this.values()) pending.unwatch()
  }

  #watch(pending: PendingApproval): void {
    pending.watch(this.clock, () => void this.expire(pending))
  }

  async #resume(pending: PendingApproval, session: Session): Promise<void> {
    const { approval } = pending
    const key = keyOf(approval)
    pending.isOrphan = false
    pending.isStored = true
    pending.isLasting = true
    this.#resumed.set(key, pending)
    const resumed = await this.#options.resumeCall(session, approval).catch((error: unknown) => {
      pending.isOrphan = true
      throw error
    })
    const close = async (): Promise<void> => {
      if (this.#resumed.get(key) === pending) this.#resumed.delete(key)
      if (!pending.isSettled) await this.settle(pending, session, { outcome: 'cancelled', at: this.clock.now() })
    }
    if (resumed === undefined) {
      pending.isLasting = false
      return close()
    }
    this.#watch(pending)
    resumed.over
      .then(
        // A call that a policy refuses by now never asks: what it had asked must not stay open.
        () => {
          pending.isLasting = false
          return close()
        },
        () => {
          pending.isOrphan = true
        }
      )
      .catch((error: unknown) =>
        this.#options.warn('an approval could not be closed', { err: error, approval: approval.id })
      )
  }
}

const keyOf = ({ session, callId }: Pick<Approval, 'session' | 'callId'>): string => `${session}\n${callId}`

const callState = ({ session, callId }: Approval, from: string, to: string): TableWrite => ({
  table: 'calls',
  op: 'update',
  row: { session, call_id: callId, state: to },
  where: { state: from }
})
