import { text } from '../../server/authoring/content.ts'
import { defineTool } from '../../server/authoring/define-tool.ts'
import { type ToolScope, toolScopeOf } from '../../server/authoring/tool-scope.ts'
import { CodedError } from '../../server/errors.ts'
import type { ApprovalAsk, ApprovalOutcome } from '../../server/pipeline/decisions.ts'
import type { Execution, ExecutionInput, InFlight, RunContext } from '../../server/pipeline/execution.ts'
import { type Guard, addGuard } from '../../server/pipeline/guard.ts'
import { type Hooks, type Stage, addHook } from '../../server/pipeline/hooks.ts'
import type { Catalogue } from '../../server/pipeline/materialize.ts'
import { type Pipeline, createPipeline } from '../../server/pipeline/pipeline.ts'
import type { ToolResult } from '../../server/pipeline/result.ts'
import type { Agent, Scope } from '../../server/scopes/scope.ts'
import { ScopeTree } from '../../server/scopes/scope-tree.ts'
import type { Undo } from '../../server/scopes/slots.ts'
import type { ToolDefinition, UserMessage } from '../../server/tools/definition.ts'
import type { Mode } from '../../server/tools/presentation.ts'
import { Registry } from '../../server/tools/registry.ts'

/** A coded error, as a harness throws it: the only kind that yields `info`. */
export class TestError extends CodedError {}

/** A promise that the test settles. */
export interface Deferred<T = void> {
  promise: Promise<T>
  resolve: (value: T) => void
  reject: (error: unknown) => void
}

export function deferred<T = void>(): Deferred<T> {
  let resolve!: (value: T) => void
  let reject!: (error: unknown) => void
  const promise = new Promise<T>((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}

/** A context message of a plugin, told apart by its plugin's name. */
export const contextFrom = (plugin: string): UserMessage => ({
  id: `ctx-${plugin}`,
  role: 'user',
  content: [{ type: 'text', text: plugin }],
  source: { kind: 'plugin', plugin }
})

/** Which plugins a result's contexts came from, in order; undefined when it has none. */
export const contextsOf = (result: ToolResult): string[] | undefined =>
  result.additionalContexts?.map(({ source }) => (source.kind === 'plugin' ? source.plugin : source.kind))

/** `info.code` of a failure, `none` for a failure without, undefined for a success. */
export const codeOf = (result: ToolResult): string | undefined =>
  result.isError ? (result.error.info?.code ?? 'none') : undefined

export const messageIn = (result: ToolResult): string | undefined => (result.isError ? result.error.message : undefined)

/** The `settled` state of a promise, without waiting longer than the pending microtasks need. */
export async function isPending(promise: Promise<unknown>): Promise<boolean> {
  let pending = true
  const settle = () => {
    pending = false
  }
  promise.then(settle, settle)
  await new Promise((resolve) => setImmediate(resolve))
  return pending
}

/** A call under way, whose signal the test aborts. */
export interface StartedCall {
  callId: string
  controller: AbortController
  result: Promise<ToolResult>
}

export interface FixtureOptions {
  /** Hooks on every stage write `stage:callId` into the trace. Default true. */
  traced?: boolean
  /** Stands between the pipeline and the registry. */
  catalogue?: (registry: Registry) => Catalogue
  mode?: Mode
}

/**
 * The fixture of the conformance cases: a real tree, registry and pipeline, the tools `echo need raw boom gate xgate coop meta`, a
 * scripted approver, and a trace that every stage, body, finalizer and observer writes to.
 */
export class PipelineFixture {
  readonly tree = new ScopeTree()
  readonly registry: Registry
  readonly pipeline: Pipeline
  readonly trace: string[] = []
  readonly warnings: { message: string; details: Record<string, unknown> }[] = []
  /** What the observers were told, in order. */
  readonly observed: { exec: Execution; result: ToolResult }[] = []
  /** What the approver was asked. */
  readonly asks: ApprovalAsk[] = []
  /** Answers asks; without it there is no approval channel at all. */
  approver: ((ask: ApprovalAsk) => Promise<ApprovalOutcome>) | undefined
  /** What the body of `boom` does. */
  boom: (exec: RunContext) => unknown = () => {
    throw new Error('exploded')
  }
  /** The last word of every fixture tool. */
  finalizer: NonNullable<ToolDefinition['finalizeContent']> = () => undefined
  /** The handle of the global scope, to mount plugins on. */
  readonly tools: ToolScope
  readonly #gates = new Map<string, { entered: Deferred; released: Deferred }>()
  #calls = 0

  constructor({ traced = true, catalogue = (registry) => registry, mode = 'native' }: FixtureOptions = {}) {
    this.registry = new Registry({ tree: this.tree, defaultMode: () => mode })
    this.pipeline = createPipeline({
      tree: this.tree,
      registry: catalogue(this.registry),
      approvals: () => {
        const { approver } = this
        return approver && { request: (ask) => (this.asks.push(ask), approver(ask)) }
      },
      warn: (message, details) => this.warnings.push({ message, details })
    })
    const { tree, registry, pipeline } = this
    this.tools = toolScopeOf({ tree, registry, pipeline }, tree.global)
    if (traced) this.#traceStages()
    for (const definition of this.#definitions()) this.register(definition)
  }

  register(definition: ToolDefinition, scope: Scope = this.tree.global): Undo {
    return this.registry.register(scope, definition)
  }

  hook<S extends Stage>(stage: S, hook: Hooks[S], options: { prepend?: boolean; scope?: Scope } = {}): Undo {
    const { scope = this.tree.global, ...rest } = options
    return addHook(scope, stage, hook, rest)
  }

  guard(guard: Guard, scope: Scope = this.tree.global): Undo {
    return addGuard(scope, guard)
  }

  agent(id: string, parent?: Scope): Agent {
    return { id: `session-${id}`, scope: this.tree.create(id, parent) }
  }

  /** An input with a callId of its own (`c1`, `c2`, …) and a signal that never aborts, unless given. */
  input(name: string, args: unknown = {}, more: Partial<ExecutionInput> = {}): ExecutionInput {
    this.#calls += 1
    return { callId: `c${this.#calls}`, name, arguments: args, signal: new AbortController().signal, ...more }
  }

  call(name: string, args?: unknown, more?: Partial<ExecutionInput>): Promise<ToolResult> {
    return this.pipeline.execute(this.input(name, args, more))
  }

  start(name: string, args?: unknown, more?: Partial<ExecutionInput>): StartedCall {
    const controller = new AbortController()
    const input = this.input(name, args, { signal: controller.signal, ...more })
    return { callId: input.callId, controller, result: this.pipeline.execute(input) }
  }

  /** Runs the stages one by one, for what only the per-call object tells. */
  async staged(input: ExecutionInput): Promise<{ call: InFlight; result: ToolResult }> {
    const prepared = await this.pipeline.prepare(input)
    const { call } = prepared
    const { stage, result } = prepared.stage === 'dispatch' ? await this.pipeline.dispatch(call) : prepared
    if (stage === 'final-result') return { call, result: this.pipeline.finish(call, result) }
    return { call, result: await this.pipeline.finalize(call, result) }
  }

  /** Resolves once the body of the gate with this id waits. */
  entered(id: string): Promise<void> {
    return this.#gate(id).entered.promise
  }

  release(id: string): void {
    this.#gate(id).released.resolve()
  }

  /** The trace without call ids, for tests of one call. */
  get stages(): string[] {
    return this.trace.map((entry) => entry.slice(0, entry.lastIndexOf(':')))
  }

  #gate(id: string): { entered: Deferred; released: Deferred } {
    const gate = this.#gates.get(id) ?? { entered: deferred(), released: deferred() }
    this.#gates.set(id, gate)
    return gate
  }

  #note(stage: string, exec: Execution): void {
    this.trace.push(`${stage}:${exec.callId}`)
  }

  #traceStages(): void {
    this.hook('preExecute', (exec, next) => (this.#note('pre', exec), next()))
    this.guard((exec) => {
      this.#note('guard', exec)
      return undefined
    })
    this.hook('execute', async (exec, next) => {
      this.#note('around:before', exec)
      const result = await next()
      this.#note('around:after', exec)
      return result
    })
    this.hook('postExecute', (exec, _result, next) => (this.#note('post', exec), next()))
    this.hook('onResult', (exec, result) => {
      this.#note('observer', exec)
      this.observed.push({ exec, result })
    })
  }

  #definitions(): ToolDefinition[] {
    const string = { schema: { type: 'string' } as const, render: (_args: unknown, value: string) => text(value) }
    const finalizeContent: ToolDefinition['finalizeContent'] = (exec, result) => {
      this.#note('finalize', exec)
      return this.finalizer(exec, result)
    }
    const pass = async (id: string, exec: RunContext): Promise<string> => {
      this.#note('body', exec)
      const gate = this.#gate(id)
      gate.entered.resolve()
      await gate.released.promise
      return `done-${id}`
    }
    return [
      defineTool({
        name: 'echo',
        description: 'Returns its text.',
        parameters: { text: { type: 'string' } },
        output: string,
        finalizeContent,
        execute: ({ text }, exec) => (this.#note('body', exec), text ?? '')
      }),
      defineTool({
        name: 'need',
        description: 'Needs a path.',
        parameters: { path: { type: 'string', required: true } },
        output: string,
        finalizeContent,
        execute: ({ path }, exec) => (this.#note('body', exec), path)
      }),
      {
        name: 'raw',
        description: 'Validates nothing.',
        parameters: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] },
        output: { schema: { type: 'string' }, render: (_args, value) => text(value as string) },
        finalizeContent,
        execute: (args, exec) => (this.#note('body', exec), typeof args)
      },
      {
        name: 'boom',
        description: 'Does what the test says.',
        parameters: { type: 'object' },
        output: { schema: {}, render: (_args, value) => text(JSON.stringify(value)) },
        finalizeContent,
        execute: (_args, exec) => (this.#note('body', exec), this.boom(exec))
      },
      defineTool({
        name: 'gate',
        description: 'Waits until the test releases its id; may overlap.',
        parameters: { id: { type: 'string', required: true } },
        output: string,
        finalizeContent,
        isConcurrencySafe: () => true,
        execute: ({ id }, exec) => pass(id, exec)
      }),
      defineTool({
        name: 'xgate',
        description: 'Waits until the test releases its id; exclusive.',
        parameters: { id: { type: 'string', required: true } },
        output: string,
        finalizeContent,
        execute: ({ id }, exec) => pass(id, exec)
      }),
      defineTool({
        name: 'coop',
        description: 'Stops when its signal aborts.',
        parameters: {},
        output: string,
        finalizeContent,
        execute: async (_args, exec) => {
          this.#note('body', exec)
          this.#gate('coop').entered.resolve()
          exec.deferContext(contextFrom('coop'))
          await new Promise((resolve) => exec.signal.addEventListener('abort', resolve, { once: true }))
          return 'stopped'
        }
      }),
      defineTool({
        name: 'meta',
        description: 'Has metadata.',
        parameters: { v: { type: 'string', required: true } },
        output: { ...string, presentationMeta: (_args, value) => ({ projected: value }) },
        finalizeContent,
        execute: ({ v }, exec) => (this.#note('body', exec), v)
      })
    ]
  }
}
