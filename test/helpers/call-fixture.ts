import { text } from '../../server/authoring/content.ts'
import { type ToolScope, toolScopeOf } from '../../server/authoring/tool-scope.ts'
import { Admission, type AdmissionLimits } from '../../server/invocations/admission.ts'
import type { CallAnswer } from '../../server/invocations/answer.ts'
import type { CallEngine } from '../../server/invocations/call-run.ts'
import { Invocations } from '../../server/invocations/invoke.ts'
import { LiveCalls } from '../../server/invocations/live-calls.ts'
import { openSteps, repairSession } from '../../server/invocations/recovery.ts'
import type { ApprovalChannel } from '../../server/pipeline/decisions.ts'
import type { RunContext } from '../../server/pipeline/execution.ts'
import { createPipeline } from '../../server/pipeline/pipeline.ts'
import { ScopeTree } from '../../server/scopes/scope-tree.ts'
import type { Session } from '../../server/sessions/session.ts'
import { Sessions } from '../../server/sessions/sessions.ts'
import { Registry } from '../../server/tools/registry.ts'
import { brief } from './app.ts'
import { FlakyLog } from './flaky-log.ts'

const limits: AdmissionLimits = {
  maxConcurrent: 100,
  maxConcurrentPerScope: 100,
  maxQueued: 100,
  queueTimeoutMs: 10_000
}

/** Sessions and calls over a log that can be made to fail, without a server around them. */
export class CallFixture {
  readonly log: FlakyLog
  readonly tree = new ScopeTree()
  readonly calls = new LiveCalls()
  readonly registry = new Registry({ tree: this.tree, defaultMode: () => 'native' })
  readonly sessions: Sessions
  readonly invocations: Invocations
  readonly engine: CallEngine
  readonly tools: ToolScope
  readonly admission: Admission
  readonly stale: string[] = []
  approvals: ApprovalChannel | undefined
  /** The body of the tool `body`. */
  body: (exec: RunContext) => unknown = () => 'ok'

  /** `log`: what an earlier run has left. */
  constructor(log = new FlakyLog(), more: Partial<AdmissionLimits> = {}) {
    this.log = log
    const { tree, registry, calls } = this
    const pipeline = createPipeline({ tree, registry, approvals: () => this.approvals, warn: () => undefined })
    this.engine = { pipeline, calls, publish: () => undefined }
    this.admission = new Admission({ ...limits, ...more })
    this.sessions = new Sessions({
      log,
      tree,
      repair: (id, failure) => repairSession(log, id, { failure }),
      openSteps: (id, turn) => openSteps(log, id, turn),
      onStale: (session, error) => {
        this.stale.push(session.id)
        calls.abort(error as Error, (call) => call.session === session)
      }
    })
    const { engine, admission } = this
    this.invocations = new Invocations({ engine, calls, log, admission, maxParallel: 10 })
    this.tools = toolScopeOf({ tree, registry, pipeline }, tree.global)
    this.tools.register({
      name: 'body',
      description: 'Does what the test says.',
      parameters: { type: 'object' },
      output: { schema: {}, render: (_args, value) => text(JSON.stringify(value)) },
      isConcurrencySafe: () => true,
      execute: (_args, exec) => this.body(exec)
    })
  }

  open(id = 's1'): Promise<Session> {
    return this.sessions.open(this.tree.global, id)
  }

  async invoke(callId: string, id = 's1', more: { step?: number } = {}): Promise<CallAnswer> {
    return this.invocations.invoke({ session: await this.open(id), callId, name: 'body', ...more })
  }

  /** The session's events in short. */
  async events(session = 's1'): Promise<string[]> {
    const page = await this.log.read({ session, after: -1, limit: 500 })
    return page.events.map((event) => brief(event as never))
  }
}
