import { randomUUID } from 'node:crypto'
import { RequestError } from '../errors.ts'
import type { EventLog, TableWrite } from '../event-log/event-log.ts'
import type { LiveEvents } from '../events/vocabulary.ts'
import { stringifyJson } from '../json/serialize.ts'
import type { JsonValue } from '../json/lossless.ts'
import type { ApprovalAsk, ApprovalChannel, ApprovalOutcome } from '../pipeline/decisions.ts'
import { hooksOf, runChain } from '../pipeline/hooks.ts'
import { Session } from '../sessions/session.ts'
import type { Sessions } from '../sessions/sessions.ts'
import type { Registry } from '../tools/registry.ts'
import { type Approval, type Decision, fromRow, hashOf, type Outcome, toRow } from './approval.ts'
import type { ApprovalPolicy } from './policy.ts'

export interface ApprovalsOptions {
  log: EventLog
  sessions: Sessions
  registry: Registry
  policy: ApprovalPolicy
  /** Milliseconds from the ask on; 0 is never (api.md §7). */
  expiryMs: number
  /** Canonical working directory of a session. */
  workdirOf: (session: Session) => Promise<string>
  /** Digest of the rules in force where the session is. */
  policyVersionOf: (session: Session) => string
  publish: (type: 'approval/pending', event: LiveEvents['approval/pending']) => void
  /** The wire takes part: without it an ask that no answerer takes is `unavailable`. */
  hasPeople: boolean
}

/** What somebody who may decide sends. */
export interface Verdict {
  decision: 'allow' | 'deny'
  reason?: string
  /** Runs instead of what was asked about; validated before anything is decided. */
  arguments?: JsonValue
  /** The hash that the approver saw. */
  hash?: string
}

interface Pending {
  approval: Approval
  /** Taken by the first who decides: what follows is the storing of that decision. */
  isTaken: boolean
  decided: Promise<Decision>
  resolve: (decision: Decision) => void
  timer: NodeJS.Timeout | undefined
}

const longestTimerMs = 2_147_483_647
const outcomes: ReadonlySet<string> = new Set<Outcome>(['allowed-once', 'rejected', 'cancelled', 'unavailable'])

/**
 * The approval service (core.md §25; api.md §7): each ask is logged, decided exactly once and logged again. Those of the pre-execute
 * stage survive a restart with their call.
 */
export class Approvals implements ApprovalChannel {
  readonly #options: ApprovalsOptions
  readonly #pending = new Map<string, Pending>()

  constructor(options: ApprovalsOptions) {
    this.#options = options
  }

  /** Asks (core.md §25). Rejects, with nothing logged, without an open turn, or when the ask cannot be stored. */
  async request(ask: ApprovalAsk): Promise<ApprovalOutcome> {
    const session = ask.agent
    if (!(session instanceof Session) || !session.turns.state.isOpen) throw new Error('an approval needs an open turn')
    const restored = this.#pendingOf(session, ask.callId)
    if (restored !== undefined) return outcomeOf(await this.#decide(ask, restored, session))
    const approval = await this.#approvalOf(ask, session)
    const pending = this.#open(approval)
    // Only a call that is in the log by itself can wait over a restart (api.md §7).
    const waits: TableWrite[] =
      session.isRecorded(ask.callId) && ask.exec.parent === undefined ? [waiting(approval)] : []
    const asked = {
      id: approval.id,
      toolName: ask.toolName,
      callId: ask.callId,
      ...(ask.reason === undefined ? {} : { reason: ask.reason })
    }
    try {
      await session.append([{ type: 'approval/asked', data: asked }], {
        writes: [{ table: 'approvals', op: 'insert', row: toRow(approval) }, ...waits]
      })
    } catch (error) {
      this.#close(pending)
      throw error
    }
    const decision = await this.#decide(ask, pending, session)
    return outcomeOf(decision)
  }

  /** Decides one pending approval. Throws `UNKNOWN_APPROVAL`, `ALREADY_DECIDED`, `APPROVAL_STALE` (409) or `INVALID_ARGS` (400). */
  async decide(id: string, verdict: Verdict, by: string): Promise<Approval> {
    const pending = this.#pending.get(id)
    if (pending === undefined || pending.isTaken) throw await this.#alreadyDecided(id)
    const { approval } = pending
    const session = await this.#sessionOf(approval)
    if (verdict.hash !== undefined && verdict.hash !== approval.hash) throw new RequestError('APPROVAL_STALE')
    const isStale = (await this.#currentHash(approval, session)) !== approval.hash
    if (pending.isTaken) throw await this.#alreadyDecided(id)
    if (isStale) {
      await this.#settle(pending, session, { outcome: 'rejected', by, at: Date.now() })
      throw new RequestError('APPROVAL_STALE')
    }
    if (verdict.decision === 'allow' && verdict.arguments !== undefined)
      await this.#check(approval, session, verdict.arguments)
    if (pending.isTaken) throw await this.#alreadyDecided(id)
    const edited =
      verdict.decision === 'allow' && verdict.arguments !== undefined ? { arguments: verdict.arguments } : {}
    const outcome = verdict.decision === 'allow' ? 'allowed-once' : 'rejected'
    await this.#settle(pending, session, { outcome, by, at: Date.now(), ...edited })
    return approval
  }

  /** The pending approvals of these scopes, oldest first. */
  list(scopes: ReadonlySet<string>): Approval[] {
    return [...this.#pending.values()]
      .filter(({ approval, isTaken }) => !isTaken && scopes.has(approval.scope))
      .map(({ approval }) => approval)
  }

  /** One approval, pending or decided; undefined when there is none. */
  async get(id: string): Promise<Approval | undefined> {
    const pending = this.#pending.get(id)
    if (pending !== undefined) return pending.approval
    const [row] = await this.#options.log.rows('approvals', { id }, 1)
    return row === undefined ? undefined : fromRow(row)
  }

  /**
   * Takes up what the last server left pending. `resume` takes up the call, which asks again and finds its approval here, and returns
   * when that call will be over; undefined when it cannot go on waiting, and the approval is closed as cancelled (api.md §7).
   */
  async restore(
    resume: (session: Session, approval: Approval) => Promise<{ over: Promise<unknown> } | undefined>
  ): Promise<void> {
    for (const row of await this.#options.log.rows('approvals', { state: 'pending' }, 100_000)) {
      const approval = fromRow(row)
      const pending = this.#open(approval)
      const session = await this.#sessionOf(approval)
      const resumed = await resume(session, approval)
      const cancel = async (): Promise<void> => {
        if (!pending.isTaken) await this.#settle(pending, session, { outcome: 'cancelled', at: Date.now() })
      }
      if (resumed === undefined) await cancel()
      // A call that a policy refuses by now never asks; what it had asked must not stay open.
      else void resumed.over.then(cancel, cancel)
    }
  }

  /** Stops the clocks: what is pending stays so in the log. */
  dispose(): void {
    for (const pending of this.#pending.values()) clearTimeout(pending.timer)
  }

  async #approvalOf(ask: ApprovalAsk, session: Session): Promise<Approval> {
    const { expiryMs } = this.#options
    const createdAt = Date.now()
    const call = {
      session: session.id,
      scope: session.scope.id,
      callId: ask.callId,
      toolName: ask.toolName,
      arguments: ask.exec.arguments ?? null
    }
    return {
      id: randomUUID(),
      ...call,
      ...(ask.reason === undefined ? {} : { reason: ask.reason }),
      hash: await this.#currentHash(call, session),
      createdAt,
      ...(expiryMs === 0 ? {} : { expiresAt: createdAt + expiryMs })
    }
  }

  async #currentHash(
    call: Pick<Approval, 'session' | 'scope' | 'callId' | 'toolName' | 'arguments'>,
    session: Session
  ): Promise<string> {
    const { registry, workdirOf, policyVersionOf } = this.#options
    return hashOf({
      tool: registry.lookup(call.toolName, session.scope),
      toolName: call.toolName,
      arguments: call.arguments,
      session: call.session,
      scope: call.scope,
      callId: call.callId,
      workdir: await workdirOf(session),
      policyVersion: policyVersionOf(session)
    })
  }

  /** The approval that this call waits for already: it was asked before the server was restarted. */
  #pendingOf(session: Session, callId: string): Pending | undefined {
    for (const pending of this.#pending.values()) {
      if (pending.approval.session === session.id && pending.approval.callId === callId) return pending
    }
    return undefined
  }

  #open(approval: Approval): Pending {
    let resolve: Pending['resolve'] = () => undefined
    const decided = new Promise<Decision>((done) => {
      resolve = done
    })
    const pending: Pending = { approval, isTaken: false, decided, resolve, timer: undefined }
    this.#pending.set(approval.id, pending)
    this.#watchExpiry(pending)
    return pending
  }

  #close(pending: Pending): void {
    clearTimeout(pending.timer)
    this.#pending.delete(pending.approval.id)
  }

  #watchExpiry(pending: Pending): void {
    const { expiresAt } = pending.approval
    if (expiresAt === undefined) return
    const left = Math.max(0, expiresAt - Date.now())
    pending.timer = setTimeout(
      () => {
        if (left > longestTimerMs) return this.#watchExpiry(pending)
        if (pending.isTaken) return undefined
        return void this.#expire(pending)
      },
      Math.min(left, longestTimerMs)
    )
    pending.timer.unref()
  }

  async #expire(pending: Pending): Promise<void> {
    const session = await this.#sessionOf(pending.approval)
    if (!pending.isTaken) await this.#settle(pending, session, { outcome: 'unavailable', by: 'expiry', at: Date.now() })
  }

  /** Who decides, in the order of core.md §25.4. */
  async #decide(ask: ApprovalAsk, pending: Pending, session: Session): Promise<Decision> {
    const settle = async (outcome: ApprovalOutcome): Promise<Decision> => {
      if (pending.isTaken) return pending.decided
      const { arguments: edited } = outcome as { arguments?: JsonValue }
      return this.#settle(pending, session, {
        outcome: outcome.outcome,
        at: Date.now(),
        ...(edited === undefined ? {} : { arguments: edited })
      })
    }
    if (ask.signal.aborted) return settle({ outcome: 'cancelled' })
    if ((await this.#options.policy.of(session)) === 'never') return settle({ outcome: 'rejected' })
    const aborted = new Promise<ApprovalOutcome>((resolve) => {
      if (ask.signal.aborted) resolve({ outcome: 'cancelled' })
      ask.signal.addEventListener('abort', () => resolve({ outcome: 'cancelled' }), { once: true })
    })
    return settle(await Promise.race([aborted, this.#answer(ask, pending, session), pending.decided.then(outcomeOf)]))
  }

  async #answer(ask: ApprovalAsk, pending: Pending, session: Session): Promise<ApprovalOutcome> {
    const people = (): ApprovalOutcome | Promise<ApprovalOutcome> => {
      if (!this.#options.hasPeople) return { outcome: 'unavailable' }
      this.#announce(pending.approval)
      return pending.decided.then(outcomeOf)
    }
    try {
      const answer: unknown = await runChain<
        (asked: ApprovalAsk, next: () => Promise<ApprovalOutcome>) => ApprovalOutcome | Promise<ApprovalOutcome>,
        ApprovalOutcome
      >({
        listeners: hooksOf('approvalRequest', session.scope.chain),
        invoke: (listener, next) => listener(ask, next),
        last: people
      })
      const { outcome } = answer as { outcome?: unknown }
      return typeof outcome === 'string' && outcomes.has(outcome)
        ? (answer as ApprovalOutcome)
        : { outcome: 'unavailable' }
    } catch {
      return { outcome: 'unavailable' }
    }
  }

  /** Stores a decision, once. When it cannot be stored the approval is pending as before, and this rejects. */
  async #settle(pending: Pending, session: Session, decision: Decision): Promise<Decision> {
    pending.isTaken = true
    const { approval } = pending
    const { outcome, by, at, arguments: edited } = decision
    const data = {
      id: approval.id,
      outcome,
      ...(by === undefined ? {} : { by }),
      ...(edited === undefined ? {} : { arguments: edited })
    }
    const row = {
      id: approval.id,
      state: 'decided',
      outcome,
      decided_at: at,
      decided_by: by ?? null,
      answer: edited === undefined ? null : stringifyJson(edited)
    }
    try {
      await session.append([{ type: 'approval/decided', data }], {
        // From here on the call may have run: a crash must not run it again (reliability.md, decisions).
        writes: [
          { table: 'approvals', op: 'put', row },
          ...(session.isRecorded(approval.callId) ? [resumed(approval)] : [])
        ],
        closing: true
      })
    } catch (error) {
      pending.isTaken = false
      throw error
    }
    approval.decision = decision
    this.#close(pending)
    pending.resolve(decision)
    return decision
  }

  #announce(approval: Approval): void {
    const { id, session, scope, callId, toolName, reason } = approval
    this.#options.publish('approval/pending', {
      id,
      session,
      scope,
      callId,
      toolName,
      ...(reason === undefined ? {} : { reason })
    })
  }

  async #check(approval: Approval, session: Session, args: JsonValue): Promise<void> {
    const tool = this.#options.registry.lookup(approval.toolName, session.scope)
    const violations = (await tool?.validateArguments?.(args)) ?? []
    if (violations.length > 0) throw new RequestError('INVALID_ARGS', undefined, { details: { violations } })
  }

  async #sessionOf(approval: Approval): Promise<Session> {
    const session = await this.#options.sessions.find(approval.session)
    if (session === undefined) throw new RequestError('UNKNOWN_APPROVAL')
    return session
  }

  async #alreadyDecided(id: string): Promise<RequestError> {
    const decision =
      this.#pending.get(id)?.isTaken === true ? await this.#pending.get(id)?.decided : (await this.get(id))?.decision
    if (decision === undefined) return new RequestError('UNKNOWN_APPROVAL')
    const { outcome, by, at } = decision
    return new RequestError('ALREADY_DECIDED', undefined, {
      details: { outcome, at, ...(by === undefined ? {} : { by }) }
    })
  }
}

const outcomeOf = ({ outcome, arguments: edited }: Decision): ApprovalOutcome =>
  outcome === 'allowed-once' && edited !== undefined ? { outcome, arguments: edited } : { outcome }

const waiting = ({ session, callId }: Approval): TableWrite => ({
  table: 'calls',
  op: 'put',
  row: { session, call_id: callId, state: 'awaiting-approval' }
})

const resumed = ({ session, callId }: Approval): TableWrite => ({
  table: 'calls',
  op: 'put',
  row: { session, call_id: callId, state: 'started' }
})
