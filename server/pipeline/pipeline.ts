import type { Agent, Scope } from '../scopes/scope.ts'
import type { ScopeTree } from '../scopes/scope-tree.ts'
import type { ContentBlock, UserMessage } from '../tools/definition.ts'
import { Activity } from './activity.ts'
import { cancelled } from './cancellation.ts'
import type { ApprovalChannel } from './decisions.ts'
import { type Dispatched, dispatch } from './dispatch.ts'
import { dispatchLogContent } from './dispatch-log.ts'
import { type DryRunReport, dryRun } from './dry-run.ts'
import type { ExecutionInput, InFlight, StoppedAt } from './execution.ts'
import { finalize } from './finalize.ts'
import { guardRefusal } from './guard.ts'
import { type DispatchLogEntry, hooksOf } from './hooks.ts'
import { type Catalogue, type Materialized, type Warn, materialize } from './materialize.ts'
import { CallObservers } from './observers.ts'
import { postExecute } from './post-execute.ts'
import { denied, type Gate, preExecute } from './pre-execute.ts'
import { publish, publishStep } from './publish.ts'
import { type Effect, type Failure, type ToolResult, disown, fail, failure, failureFrom } from './result.ts'

export type { Dispatched } from './dispatch.ts'
export type { DryRunReport } from './dry-run.ts'
export type { InFlight } from './execution.ts'

/** What follows `prepare`: the body, or a result that goes through post-execute, or one that does not (core.md §22.10). */
export type Prepared =
  | { stage: 'dispatch'; call: InFlight }
  | { stage: 'post-result' | 'final-result'; call: InFlight; result: ToolResult }

export interface PipelineOptions {
  tree: ScopeTree
  registry: Catalogue
  /** Where an `ask` goes; asked anew for each, and without a channel an ask is a denial (core.md §10.5). */
  approvals?: () => ApprovalChannel | undefined
  /** Hears of what was contained: a listener that failed. */
  warn: Warn
  observers?: CallObservers
}

/** Runs calls through their stages. The four steps are what a scheduler interleaves; `execute` is their composition. */
export interface Pipeline {
  /** Makes the execution, runs pre-execute, approval and guards (core.md §8 to §11). Rejects only for a malformed input. */
  prepare(input: ExecutionInput): Promise<Prepared>
  /** Wrappers and body (core.md §12). Never rejects. */
  dispatch(call: InFlight): Promise<Dispatched>
  /** Post-execute, finalizer, observers (core.md §13 to §15): for a `post-result`. Never rejects. */
  finalize(call: InFlight, result: ToolResult): Promise<ToolResult>
  /** Finalizer and observers: for a `final-result`. */
  finish(call: InFlight, result: ToolResult): ToolResult
  execute(input: ExecutionInput): Promise<ToolResult>
  /** Whether this very call may overlap others (core.md §21). Never throws. */
  executionMode(input: ExecutionInput): { kind: 'parallel' | 'exclusive' }
  dryRun(input: ExecutionInput): Promise<DryRunReport>
  /** What is known of the call's side effect, from how far it came (api.md §2); a success is `completed`. */
  effectOf(call: InFlight, result: ToolResult): Effect
  /** Whether the same call under a new id may succeed and does no harm (api.md §2). */
  isRetryable(call: InFlight, result: ToolResult): boolean
  /** The content to log for a program's call (code-mode.md §13.3). Never rejects. */
  dispatchLogContent(entry: DispatchLogEntry): Promise<readonly ContentBlock[]>
  /** Tells the `onStep` hooks which messages an agent's next step begins with (core.md §26.5). Never throws. */
  stepStarting(agent: Agent, messages: readonly UserMessage[]): void
  /** Resolves when no stage of a call runs in the scope or below it; `execute` counts as one from end to end. */
  quiet(scope: Scope): Promise<void>
}

/*
 *   materialize ─► pre-execute ─► guard ─► dispatch ─► post-execute ─► finalize ─► publish
 *        │             │ throw      │ throw    │ wrapper failed             ▲
 *        │             │            │          │                            │
 *        └─────────────┴────────────┴──────────┴────────── final-result ────┤
 *                      └ denial ────┴ denial ───────────► post-execute ─────┘
 */
export function createPipeline(options: PipelineOptions): Pipeline {
  const { tree, registry, approvals, warn, observers = new CallObservers(warn) } = options
  const activity = new Activity()
  const scopeOf = ({ agent }: { agent?: Agent }): Scope => agent?.scope ?? tree.global

  async function gate({ call, result }: Materialized): Promise<Prepared> {
    if (result !== undefined) return { stage: 'final-result', call, result }
    const { chain } = scopeOf(call.exec)
    try {
      const stage = observers.begin(call, 'pre-execute')
      let answer: Gate
      try {
        answer = await preExecute(call, () => hooksOf('preExecute', chain), approvals)
      } finally {
        observers.end(stage)
      }
      if (answer.kind === 'cancelled') return { stage: 'post-result', call, result: cancelled(call) }
      const refusal =
        answer.kind === 'deny'
          ? answer.reason
          : observers.duringSync(call, 'guard', () => guardRefusal(call.exec, chain))
      if (refusal !== undefined) return { stage: 'post-result', call, result: denial(call, refusal) }
    } catch (thrown) {
      return { stage: 'final-result', call, result: fail(call, 'pre-execute', failureFrom(thrown)) }
    }
    if (call.callerSignal.aborted) return { stage: 'post-result', call, result: cancelled(call) }
    return { stage: 'dispatch', call }
  }

  async function around(call: InFlight): Promise<Dispatched> {
    const scope = scopeOf(call.exec)
    activity.enter(scope)
    const stage = observers.begin(call, 'dispatch')
    try {
      return await observers.within(call, () => dispatch(call, registry, hooksOf('execute', scope.chain)))
    } finally {
      observers.end(stage)
      activity.leave(scope)
    }
  }

  async function settle(call: InFlight, candidate: ToolResult): Promise<ToolResult> {
    const scope = scopeOf(call.exec)
    activity.enter(scope)
    try {
      const stage = observers.begin(call, 'post-execute')
      let result: ToolResult
      try {
        result = await postExecute(call, candidate, registry, hooksOf('postExecute', scope.chain))
      } finally {
        observers.end(stage)
      }
      return finish(call, result)
    } finally {
      activity.leave(scope)
    }
  }

  function finish(call: InFlight, candidate: ToolResult): ToolResult {
    const result = observers.duringSync(call, 'finalize', () => finalize(call, candidate))
    publish(call, result, hooksOf('onResult', scopeOf(call.exec).chain), warn)
    observers.closed(call, result)
    return result
  }

  async function run(materialized: Materialized): Promise<ToolResult> {
    const { call } = materialized
    const prepared = await gate(materialized)
    const { stage, result } = prepared.stage === 'dispatch' ? await around(call) : prepared
    return stage === 'post-result' ? settle(call, result) : finish(call, result)
  }

  /** Reads the input, each field once, before anything else happens. As for each stage, a disposal of the scope waits for it. */
  async function begin<T>(input: ExecutionInput, stage: (materialized: Materialized) => Promise<T>): Promise<T> {
    const materialized = materialize(registry, input, warn)
    const scope = scopeOf(materialized.call.exec)
    activity.enter(scope)
    try {
      return await stage(materialized)
    } finally {
      activity.leave(scope)
    }
  }

  /** A stage that begins a call, rather than a dry run. */
  const opening =
    <T>({ trace }: ExecutionInput, stage: (materialized: Materialized) => Promise<T>) =>
    (materialized: Materialized): Promise<T> => {
      observers.opened(materialized.call, trace)
      return stage(materialized)
    }

  return {
    prepare: (input) => begin(input, opening(input, gate)),
    dispatch: around,
    finalize: settle,
    finish,
    execute: (input) => begin(input, opening(input, run)),
    executionMode: (input) => ({ kind: isParallel(registry, input) ? 'parallel' : 'exclusive' }),
    dryRun: (input) => begin(input, (materialized) => dryRun(materialized, scopeOf(materialized.call.exec).chain)),
    effectOf: (call, result) => (result.isError ? call.effect : 'completed'),
    isRetryable,
    dispatchLogContent: (entry) => dispatchLogContent(entry, hooksOf('dispatchLog', scopeOf(entry).chain), warn),
    stepStarting: (agent, messages) => publishStep(agent, messages, hooksOf('onStep', agent.scope.chain), warn),
    quiet: (scope) => activity.quiet(scope)
  }
}

const denial = (call: InFlight, reason: string): Failure =>
  fail(call, 'denial', failure(reason === '' ? denied(call.exec.name) : reason))

function isParallel(registry: Catalogue, input: ExecutionInput): boolean {
  try {
    const { name, agent, parent, arguments: args } = input
    const tool = registry.lookup(name, agent?.scope)
    if (tool?.isConcurrencySafe === undefined || registry.isCollapsed(name, agent?.scope, parent)) return false
    const answer: unknown = tool.isConcurrencySafe(args as never)
    disown(answer)
    return answer === true
  } catch {
    return false
  }
}

const ownFaults: ReadonlySet<StoppedAt | undefined> = new Set<StoppedAt>(['arguments', 'name', 'denial'])

function isRetryable(call: InFlight, result: ToolResult): boolean {
  if (!result.isError || ownFaults.has(call.stoppedAt)) return false
  return call.effect === 'none' || call.tool?.idempotent === true
}
