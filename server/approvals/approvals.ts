import { randomUUID } from 'node:crypto'
import type { Answer, Question } from '../backends/questions/questions.ts'
import { RequestError } from '../errors.ts'
import type { JsonValue } from '../json/lossless.ts'
import type { ApprovalAsk, ApprovalChannel, ApprovalOutcome } from '../pipeline/decisions.ts'
import type { Execution, RunContext } from '../pipeline/execution.ts'
import { Session } from '../sessions/session.ts'
import type { Registry } from '../tools/registry.ts'
import { askAnswerers, violationsIn } from './answerers.ts'
import { type Approval, type Decision, fromRow, hashOf, outcomeOf } from './approval.ts'
import type { PendingApproval } from './pending-approval.ts'
import { PendingApprovals, type PendingApprovalsOptions } from './pending-approvals.ts'
import type { ApprovalPolicy } from './policy.ts'
import { type GivenAnswer, matchAnswers, type QuestionOutcome, type SessionQuestions } from './questions.ts'

export interface ApprovalsOptions extends PendingApprovalsOptions {
  registry: Registry
  policy: ApprovalPolicy
  /** Milliseconds from the ask on; 0 is never (api.md §7). */
  expiryMs: number
  /** Canonical working directory of a session. */
  workdirOf: (session: Session) => Promise<string>
  /** Digest of the rules in force where the session is. */
  policyVersionOf: (session: Session) => string
  /** Tells the people who can decide. Absent: there are none, and what no answerer takes is `unavailable`. */
  announce?: (approval: Approval) => void
}

/** What somebody who may decide sends. */
export interface Verdict {
  /** A question is answered, or dismissed with `deny`. */
  decision: 'allow' | 'deny' | 'answer'
  answers?: readonly GivenAnswer[]
  reason?: string
  /** Runs instead of what was asked about; validated before anything is decided. */
  arguments?: JsonValue
  /** The hash that the approver saw. */
  hash?: string
}

/**
 * The approval service (core.md §25; api.md §7): each ask is logged, decided exactly once and logged again. Those of the pre-execute
 * stage outlive the server together with their call.
 */
export class Approvals implements ApprovalChannel {
  readonly pending: PendingApprovals
  readonly #options: ApprovalsOptions

  constructor(options: ApprovalsOptions) {
    this.#options = options
    this.pending = new PendingApprovals(options)
  }

  /**
   * The ask of a call's pre-execute stage (core.md §10.5). Rejects, with nothing logged, without an open turn or when the ask cannot be
   * stored; and with `SHUTTING_DOWN` when the call is left to the next run of the server.
   */
  async request(ask: ApprovalAsk): Promise<ApprovalOutcome> {
    return this.#request(ask, false)
  }

  /**
   * The ask of a running body, which holds no place meanwhile. Its approval does not outlive the server, as its call does not (api.md §7).
   */
  async requestInBody(ask: ApprovalAsk & { exec: RunContext }): Promise<ApprovalOutcome> {
    return ask.exec.awaitPerson(this.#request(ask, true))
  }

  /**
   * A person decides. Throws `UNKNOWN_APPROVAL`, `ALREADY_DECIDED` with the winner, `APPROVAL_STALE`, which closes the approval as
   * rejected unless only the hash was another, `INVALID_ARGS` or `SHUTTING_DOWN`, which leave it pending. What a question asks is
   * frozen by itself, so it never becomes stale.
   */
  async decide(id: string, verdict: Verdict, by: string): Promise<Approval> {
    const pending = this.pending.find(id)
    if (pending?.isStored !== true || pending.isTaken) throw await this.#tooLate(id, pending)
    const { approval } = pending
    const session = await this.pending.attach(pending)
    if (pending.isExpired(this.pending.clock)) await this.pending.expire(pending)
    else if (verdict.hash !== undefined && verdict.hash !== approval.hash) throw new RequestError('APPROVAL_STALE')
    const edited = verdict.decision === 'allow' ? verdict.arguments : undefined
    if (edited !== undefined) await this.#checkEdit(pending, session, edited)
    const isQuestion = approval.kind === 'question'
    const answers = answersIn(approval, verdict)
    const isStale =
      !isQuestion && (await this.#hashOf(session, { ...approval, ...argumentsOf(pending) })) !== approval.hash
    // From here on nothing is awaited until the approval is taken.
    if (pending.isTaken) throw await this.#tooLate(id, pending)
    const { reason } = verdict
    const decision: Decision = {
      outcome: verdict.decision === 'deny' || isStale ? 'rejected' : isQuestion ? 'answered' : 'allowed-once',
      at: this.pending.clock.now(),
      by,
      ...(reason === undefined ? {} : { reason }),
      ...(edited === undefined || isStale ? {} : { arguments: edited }),
      ...(answers === undefined ? {} : { answers })
    }
    if (isStale || pending.toPeople === undefined) await this.pending.settle(pending, session, decision)
    else {
      if (this.pending.isLeft(pending)) throw new RequestError('SHUTTING_DOWN')
      pending.verdict = decision
      pending.toPeople(outcomeOf(decision))
      await pending.decided
    }
    if (isStale) throw new RequestError('APPROVAL_STALE')
    if (approval.decision !== decision) throw await this.#tooLate(id, pending)
    return approval
  }

  /** The pending approvals whose scope is meant, oldest first. */
  list(isMeant: (scope: string) => boolean): Approval[] {
    return this.pending
      .values()
      .filter(({ approval, isStored, isSettled }) => isStored && !isSettled && isMeant(approval.scope))
      .map(({ approval }) => approval)
      .sort(inOrder)
  }

  /** One approval, pending or decided; undefined when there is none. */
  async get(id: string): Promise<Approval | undefined> {
    const pending = this.pending.find(id)
    if (pending?.isStored === true) return pending.approval
    const [row] = await this.#options.log.rows('approvals', { id }, 1)
    return row === undefined ? undefined : fromRow(row)
  }

  /** The questions of a running body: the people are their provider (api.md §7). Rejects when they cannot be stored. */
  async askQuestions({ agent, callId, toolName, questions, signal }: SessionQuestions): Promise<QuestionOutcome> {
    const { announce } = this.#options
    if (announce === undefined) return { outcome: 'unavailable' }
    if (this.pending.isClosing) return { outcome: 'cancelled' }
    const asked = {
      kind: 'question',
      callId,
      toolName,
      arguments: { questions } as unknown as JsonValue
    } as const
    const pending = await this.#ask(agent, asked, true)
    // What fails here fails whoever waits, too.
    const cancel = (): void => void this.#conclude(pending, agent, { outcome: 'cancelled' }).catch(() => undefined)
    signal.addEventListener('abort', cancel, { once: true })
    if (signal.aborted || this.pending.isClosing) cancel()
    else announce(pending.approval)
    try {
      const { outcome, answers = [] } = await pending.decided
      return outcome === 'answered' ? { outcome, answers } : ({ outcome } as QuestionOutcome)
    } catch (error) {
      pending.isOrphan = true
      throw error
    } finally {
      signal.removeEventListener('abort', cancel)
    }
  }

  async #request(ask: ApprovalAsk, isInBody: boolean): Promise<ApprovalOutcome> {
    const session = ask.agent
    if (!(session instanceof Session)) throw new Error('an approval needs a session')
    const isOff = this.#options.policy.of(session) === 'never'
    const resumed = isInBody ? undefined : this.pending.takeResumed(session, ask.callId, ask.exec)
    const pending =
      resumed ?? (await this.#ask(session, { ...ask, kind: 'tool', arguments: ask.exec.arguments ?? null }, isInBody))
    try {
      return outcomeOf(await this.#decisionOn(pending, session, { ask, isOff }))
    } catch (error) {
      pending.isOrphan = true
      throw error
    }
  }

  async #ask(
    session: Session,
    ask: Pick<Approval, 'kind' | 'callId' | 'toolName' | 'reason' | 'arguments'> & { exec?: Execution },
    isInBody: boolean
  ): Promise<PendingApproval> {
    const { callId, toolName, reason, exec, kind, arguments: args } = ask
    const { expiryMs } = this.#options
    const createdAt = this.pending.clock.now()
    const call = { session: session.id, scope: session.scope.id, callId, toolName, arguments: args }
    const approval: Approval = {
      id: randomUUID(),
      kind,
      ...call,
      ...(reason === undefined ? {} : { reason }),
      hash: await this.#hashOf(session, call),
      createdAt,
      ...(expiryMs === 0 ? {} : { expiresAt: createdAt + expiryMs })
    }
    if (!session.turns.state.isOpen) throw new Error('an approval needs an open turn')
    return this.pending.add(approval, session, { exec, isInBody })
  }

  /** Who decides, in the order of core.md §25.4. */
  async #decisionOn(
    pending: PendingApproval,
    session: Session,
    { ask, isOff }: { ask: ApprovalAsk; isOff: boolean }
  ): Promise<Decision> {
    const { decision } = pending.approval
    if (decision !== undefined) return decision
    if (this.pending.isLeft(pending)) throw new RequestError('SHUTTING_DOWN')
    const { signal } = ask
    const isTooLate = pending.isInBody && this.pending.isClosing
    if (signal.aborted || isTooLate) return this.#conclude(pending, session, { outcome: 'cancelled' })
    if (isOff) return this.#conclude(pending, session, { outcome: 'rejected' })
    const isOver = new AbortController()
    const aborted = new Promise<ApprovalOutcome>((resolve) => {
      const cancel = (): void => resolve({ outcome: 'cancelled' })
      signal.addEventListener('abort', cancel, { once: true, signal: isOver.signal })
    })
    const { registry, warn } = this.#options
    const answer = askAnswerers(ask, {
      people: () => this.#askPeople(pending),
      tool: registry.lookup(ask.toolName, session.scope),
      onError: (error) => warn('an answerer of approvals failed', { err: error, approval: pending.approval.id })
    })
    const concluded = Promise.race([aborted, answer]).then((outcome) => this.#conclude(pending, session, outcome))
    try {
      return await Promise.race([pending.decided, concluded])
    } finally {
      isOver.abort()
    }
  }

  /** The end of the chain: whoever decides over the wire, if anybody can. */
  #askPeople(pending: PendingApproval): ApprovalOutcome | Promise<ApprovalOutcome> {
    const { announce } = this.#options
    if (announce === undefined) return { outcome: 'unavailable' }
    if (pending.isSettled) return pending.decided.then(outcomeOf)
    const answered = new Promise<ApprovalOutcome>((resolve) => {
      pending.toPeople = resolve
    })
    announce(pending.approval)
    return answered
  }

  /** Stores an outcome, unless another is the decision already. What a person said is theirs unless an answerer made another of it. */
  async #conclude(pending: PendingApproval, session: Session, outcome: ApprovalOutcome): Promise<Decision> {
    if (pending.isSettled) return pending.decided
    const { verdict } = pending
    const said: Pick<Decision, 'outcome' | 'arguments'> = outcome
    const isTheirs = verdict?.outcome === said.outcome && verdict.arguments === said.arguments
    return this.pending.settle(pending, session, isTheirs ? verdict : { ...said, at: this.pending.clock.now() })
  }

  async #checkEdit({ approval, isInBody }: PendingApproval, session: Session, args: JsonValue): Promise<void> {
    const tool = this.#options.registry.lookup(approval.toolName, session.scope)
    const violations = isInBody ? ['the call is running already'] : await violationsIn(tool, args)
    if (violations.length > 0) throw new RequestError('INVALID_ARGS', undefined, { details: { violations } })
  }

  /** The hash of what would run now. */
  async #hashOf(
    session: Session,
    { callId, toolName, arguments: args }: Pick<Approval, 'callId' | 'toolName' | 'arguments'>
  ): Promise<string> {
    const { registry, workdirOf, policyVersionOf } = this.#options
    const workdir = await workdirOf(session)
    return hashOf({
      tool: registry.lookup(toolName, session.scope),
      toolName,
      arguments: args,
      session: session.id,
      scope: session.scope.id,
      callId,
      workdir,
      policyVersion: policyVersionOf(session)
    })
  }

  async #tooLate(id: string, pending: PendingApproval | undefined): Promise<RequestError> {
    const decision = pending?.isTaken === true ? await pending.decided : (await this.get(id))?.decision
    if (decision === undefined) return new RequestError('UNKNOWN_APPROVAL')
    const { outcome, by, reason, at } = decision
    const details = { outcome, at, ...(by === undefined ? {} : { by }), ...(reason === undefined ? {} : { reason }) }
    return new RequestError('ALREADY_DECIDED', undefined, { details })
  }
}

/** The answers that a verdict has. Throws `INVALID_ARGS` for one that is of the other kind, or does not answer the questions. */
function answersIn({ kind, arguments: asked }: Approval, { decision, answers = [] }: Verdict): Answer[] | undefined {
  if (decision === 'deny' || (kind === 'tool' && decision === 'allow')) return undefined
  const matched =
    kind === 'tool'
      ? { answers: [], violations: ['this is allowed or denied: it is no question'] }
      : decision === 'allow'
        ? { answers: [], violations: ['a question takes answers, or "deny" to dismiss it'] }
        : matchAnswers((asked as unknown as { questions: Question[] }).questions, answers)
  const violations = matched.violations.slice(0, 20)
  if (violations.length > 0) throw new RequestError('INVALID_ARGS', undefined, { details: { violations } })
  return matched.answers
}

/** Oldest first; ids tell apart what was asked in the same millisecond. */
export const inOrder = (a: Pick<Approval, 'createdAt' | 'id'>, b: Pick<Approval, 'createdAt' | 'id'>): number =>
  a.createdAt - b.createdAt || (a.id < b.id ? -1 : Number(a.id > b.id))

/** What the call itself holds counts, not what was stored of it. */
const argumentsOf = ({ exec }: PendingApproval): { arguments?: JsonValue } =>
  exec?.arguments === undefined ? {} : { arguments: exec.arguments }
