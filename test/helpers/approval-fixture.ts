import type { Approval } from '../../server/approvals/approval.ts'
import { Approvals, type ApprovalsOptions } from '../../server/approvals/approvals.ts'
import type { Clock } from '../../server/approvals/pending-approval.ts'
import { ApprovalPolicy } from '../../server/approvals/policy.ts'
import type { CallAnswer } from '../../server/invocations/answer.ts'
import { CallFixture } from './call-fixture.ts'
import type { FlakyLog } from './flaky-log.ts'
import { until } from './until.ts'

/** Time that passes when the test says so. */
export class ManualClock implements Clock {
  time = 1_000_000
  readonly #timers = new Set<{ at: number; run: () => void }>()

  now(): number {
    return this.time
  }

  after(delayMs: number, run: () => void): () => void {
    const timer = { at: this.time + delayMs, run }
    this.#timers.add(timer)
    return () => void this.#timers.delete(timer)
  }

  pass(ms: number): void {
    this.time += ms
    for (const timer of this.#timers) {
      if (timer.at > this.time || !this.#timers.delete(timer)) continue
      timer.run()
    }
  }
}

/** Calls of the tool `body` that are all asked about, with the real approval service and people who can be told. */
export class ApprovalFixture extends CallFixture {
  readonly service: Approvals
  readonly policy: ApprovalPolicy
  readonly clock = new ManualClock()
  readonly announced: Approval[] = []
  readonly warnings: string[] = []
  workdir = '/work'
  policyVersion = 'v1'
  decision: { kind: 'ask'; reason?: string } | { kind: 'allow' } | { kind: 'deny'; reason: string } = { kind: 'ask' }
  ran: unknown[] = []

  constructor(log?: FlakyLog, more: Partial<ApprovalsOptions> = {}) {
    super(log)
    this.policy = new ApprovalPolicy('ask')
    this.service = new Approvals({
      log: this.log,
      sessions: this.sessions,
      registry: this.registry,
      policy: this.policy,
      expiryMs: 1_000,
      workdirOf: async () => this.workdir,
      policyVersionOf: () => this.policyVersion,
      resumeCall: async (session, { callId }) => {
        const [row] = await this.log.rows('calls', { session: session.id, call_id: callId }, 1)
        if (row?.['state'] !== 'awaiting-approval') return undefined
        return { over: (await this.invocations.resume(session, row)).answer }
      },
      announce: (approval) => this.announced.push(approval),
      warn: (message) => this.warnings.push(message),
      clock: this.clock,
      ...more
    })
    this.approvals = this.service
    this.tools.addHook('preExecute', () => this.decision)
    this.body = ({ arguments: args }) => {
      this.ran.push(args)
      return 'ran'
    }
  }

  /** A call that waits for a person, by then. */
  async waiting(callId: string, args: unknown = {}): Promise<{ answer: Promise<CallAnswer>; approval: Approval }> {
    const session = await this.open()
    const answer = this.invocations.invoke({ session, callId, name: 'body', arguments: args as never })
    answer.catch(() => undefined)
    const find = (): Approval | undefined => this.announced.find((approval) => approval.callId === callId)
    await until(() => find() !== undefined)
    return { answer, approval: find() as Approval }
  }

  async approvalEvents(): Promise<{ type: string; data: any }[]> {
    const page = await this.log.read({ session: 's1', after: -1, limit: 500, types: ['approval/*'] })
    return page.events.map(({ type, data }) => ({ type, data }))
  }

  async row(id: string): Promise<Record<string, unknown> | undefined> {
    return (await this.log.rows('approvals', { id }, 1))[0]
  }

  async callState(callId: string): Promise<unknown> {
    return (await this.log.rows('calls', { session: 's1', call_id: callId }, 1))[0]?.['state']
  }
}
