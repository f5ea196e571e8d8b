import { text } from '../../server/authoring/content.ts'
import { defineTool } from '../../server/authoring/define-tool.ts'
import { type ToolScope, toolScopeOf } from '../../server/authoring/tool-scope.ts'
import type { DispatchEvent } from '../../server/code-mode/dispatch-journal.ts'
import { createRunCode, type MountedRuntime } from '../../server/code-mode/run-code.ts'
import type { BoundFunction, FailureKind, RunRequest, RunResult } from '../../server/code-runtime/code-runtime.ts'
import type { JsonValue } from '../../server/json/lossless.ts'
import type { ApprovalChannel } from '../../server/pipeline/decisions.ts'
import { createPipeline, type Pipeline } from '../../server/pipeline/pipeline.ts'
import type { ToolResult } from '../../server/pipeline/result.ts'
import type { Agent } from '../../server/scopes/scope.ts'
import { ScopeTree } from '../../server/scopes/scope-tree.ts'
import type { ToolDefinition } from '../../server/tools/definition.ts'
import type { Mode } from '../../server/tools/presentation.ts'
import { Registry } from '../../server/tools/registry.ts'
import { type Deferred, deferred } from './pipeline-fixture.ts'

/** Bodies of `gate_r` and `gate_w`: each waits until the test releases its id, or its signal fires. */
export class Gates {
  /** Ids in the order in which their bodies began, and ended. */
  readonly entered: string[] = []
  readonly left: string[] = []
  /** Ids whose signal fired. */
  readonly aborted: string[] = []
  peak = 0
  readonly #released = new Map<string, Deferred>()

  release(...ids: string[]): void {
    for (const id of ids) this.#gate(id).resolve()
  }

  async pass(id: string, signal: AbortSignal): Promise<string> {
    this.entered.push(id)
    this.peak = Math.max(this.peak, this.entered.length - this.left.length)
    const abort = (): void => {
      this.aborted.push(id)
      this.release(id)
    }
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort, { once: true })
    await this.#gate(id).promise
    signal.removeEventListener('abort', abort)
    this.left.push(id)
    return id
  }

  #gate(id: string): Deferred {
    const gate = this.#released.get(id) ?? deferred()
    this.#released.set(id, gate)
    return gate
  }
}

const plain = { schema: { type: 'string' } as const, render: (_args: unknown, value: string) => text(value) }
const string = { type: 'string', required: true } as const

/** The fixture tools of the code-mode cases, and `chatty`, which reports partial output. */
export function fixtureTools(gates = new Gates()): ToolDefinition[] {
  const gate = (name: string, isReading: boolean): ToolDefinition =>
    defineTool({
      name,
      description: 'Waits until the test releases its id.',
      parameters: { id: string },
      output: plain,
      isConcurrencySafe: () => isReading,
      execute: ({ id }, { signal }) => gates.pass(id, signal)
    })
  return [
    defineTool({
      name: 'echo',
      description: 'Returns its value.',
      parameters: { value: string },
      output: plain,
      execute: ({ value }) => `echo:${value}`
    }),
    defineTool({
      name: 'add',
      description: 'Adds.',
      parameters: { a: { type: 'number', required: true }, b: { type: 'number', required: true } },
      output: { schema: { type: 'number' }, render: (_args, sum) => text(String(sum)) },
      isConcurrencySafe: () => true,
      execute: ({ a, b }) => a + b
    }),
    defineTool({
      name: 'fail',
      description: 'Fails.',
      parameters: { why: { type: 'string' } },
      output: plain,
      execute: ({ why }) => {
        throw new Error(why ?? 'deliberate')
      }
    }),
    defineTool({
      name: 'mirror',
      description: 'Returns what it gets.',
      parameters: { v: { type: 'json', required: true } },
      output: { schema: { type: 'json' }, render: () => text('mirrored') },
      isConcurrencySafe: () => true,
      execute: ({ v }) => v
    }),
    gate('gate_r', true),
    gate('gate_w', false),
    defineTool({
      name: 'nap',
      description: 'Sleeps.',
      parameters: { ms: { type: 'integer', required: true }, id: string },
      output: plain,
      isConcurrencySafe: () => true,
      execute: ({ ms, id }, { signal }) => nap(ms, id, signal)
    }),
    defineTool({
      name: 'stubborn',
      description: 'Sleeps, whatever comes.',
      parameters: { ms: { type: 'integer', required: true } },
      output: plain,
      execute: ({ ms }) => new Promise<string>((resolve) => setTimeout(resolve, ms, 'done'))
    }),
    defineTool({
      name: 'slow',
      description: 'Has a deadline.',
      parameters: {},
      output: plain,
      timeoutMs: 100,
      execute: (_args, { signal }) => nap(60_000, 'late', signal)
    }),
    {
      name: 'pic',
      description: 'Shows a picture.',
      parameters: { type: 'object' },
      output: {
        schema: { type: 'string' },
        render: () => [...text('one picture'), { type: 'image', data: 'aGk=', mimeType: 'image/png' }]
      },
      execute: () => 'pic'
    },
    defineTool({
      name: 'tag',
      description: 'Leaves a context.',
      parameters: { t: string },
      output: plain,
      isConcurrencySafe: () => true,
      execute: ({ t }, { deferContext }) => {
        deferContext({
          id: `ctx-${t}`,
          role: 'user',
          content: text(`ctx:${t}`),
          source: { kind: 'plugin', plugin: 'tag' }
        })
        return t
      }
    }),
    defineTool({
      name: 'finish',
      description: 'Ends the turn.',
      parameters: {},
      output: plain,
      execute: (_args, { concludeTurn }) => {
        concludeTurn()
        return 'fin'
      }
    }),
    defineTool({
      name: 'chatty',
      description: 'Says what it does.',
      parameters: {},
      output: plain,
      execute: (_args, { progress }) => {
        progress('half way')
        return 'done'
      }
    }),
    ...['my-tool', '3d', 'class', '__proto__', 'constructor'].map((name) =>
      defineTool({ name, description: `Called ${name}.`, parameters: {}, output: plain, execute: () => `${name}-ok` })
    )
  ]
}

function nap(ms: number, id: string, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      clearTimeout(timer)
      reject(new Error('nap aborted'))
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', abort)
      resolve(id)
    }, ms)
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort, { once: true })
  })
}

export interface CodeModeOptions {
  runtime?: MountedRuntime | undefined
  mode?: Mode
  maxParallelSubCalls?: number
  maxSubCalls?: number
  maxStoredPayloadBytes?: number
}

/** Code mode without a server: a real tree, registry and pipeline, the fixture tools, an agent whose events are kept in a list. */
export class CodeModeFixture {
  readonly tree = new ScopeTree()
  readonly registry: Registry
  readonly pipeline: Pipeline
  readonly tools: ToolScope
  readonly agent: Agent
  readonly gates = new Gates()
  readonly events: DispatchEvent[] = []
  readonly progress: string[] = []
  readonly warnings: string[] = []
  /** Stands in for the log: a test may make it slow, or refuse. */
  append: (event: DispatchEvent) => Promise<unknown> = async () => undefined
  approver: ApprovalChannel['request'] | undefined
  runtime: MountedRuntime | undefined

  constructor({
    runtime,
    mode = 'code',
    maxParallelSubCalls = 10,
    maxSubCalls = 0,
    maxStoredPayloadBytes = 64 * 1024 * 1024
  }: CodeModeOptions = {}) {
    const { tree } = this
    this.runtime = runtime
    this.registry = new Registry({ tree, defaultMode: () => mode, transport: () => transport })
    this.pipeline = createPipeline({
      tree,
      registry: this.registry,
      approvals: () => this.approver && { request: this.approver },
      warn: (message) => this.warnings.push(message)
    })
    const { registry, pipeline } = this
    const transport = createRunCode({
      registry,
      pipeline,
      runtime: () => this.runtime,
      maxParallelSubCalls,
      maxSubCalls,
      maxStoredPayloadBytes,
      append: async (_agent, event) => {
        this.events.push(event)
        await this.append(event)
      },
      onProgress: (_agent, { callId, name }, chunk) => this.progress.push(`${callId} ${name} ${chunk}`)
    })
    this.tools = toolScopeOf({ tree, registry, pipeline }, tree.global)
    this.agent = { id: 's', scope: tree.create('agent') }
    for (const tool of fixtureTools(this.gates)) this.tools.register(tool)
  }

  /** Runs a program as the call `c1`. `agent: undefined` is a call without an agent. */
  run(code: string, more: { signal?: AbortSignal; agent?: Agent | undefined } = {}): Promise<ToolResult> {
    return this.call('run_code', { code, description: 'test run' }, more)
  }

  call(
    name: string,
    args: unknown,
    { signal = new AbortController().signal, ...more }: { signal?: AbortSignal; agent?: Agent | undefined } = {}
  ): Promise<ToolResult> {
    const agent = 'agent' in more ? more.agent : this.agent
    return this.pipeline.execute({
      callId: 'c1',
      name,
      arguments: args,
      signal,
      ...(agent && { agent }),
      onProgress: (chunk) => this.progress.push(chunk)
    })
  }

  /** The session's events in short: `S 1 echo`, `D 1 echo ok`. */
  get ev(): string[] {
    return this.events.map(briefDispatch)
  }
}

export function briefDispatch({ type, data }: { type: string; data: any }): string {
  const n = String(data.subCallId).replace(/^.*:code:/, '')
  if (type === 'tool/code-dispatch-start') return `S ${n} ${data.name}`
  return `D ${n} ${data.name} ${data.isError ? 'err' : 'ok'}`
}

/** The text of a result's only block. */
export function textOf({ content }: ToolResult): string {
  if (content.length !== 1 || content[0]!.type !== 'text') throw new Error('not one text block')
  return content[0]!['text'] as string
}

/** The value of a run: `{ logs, result? }`; throws the message of a failure. */
export function valueOf(result: ToolResult): { logs: string[]; result?: JsonValue } {
  if (result.isError) throw new Error(result.error.message)
  return result.value as { logs: string[]; result?: JsonValue }
}

type Script = (tools: Record<string, BoundFunction>, request: RunRequest) => Promise<unknown>

/**
 * A runtime whose program is a function of the test, for what only the order of single steps shows: no world, no boundary. An abort
 * ends it as `abort`, a throw as `exception`.
 */
export const scripted = (script: Script): MountedRuntime => ({
  language: 'typescript',
  async run(request): Promise<RunResult> {
    const failed = (kind: FailureKind, message: unknown): RunResult => ({
      logs: [],
      error: { kind, message: String(message) }
    })
    const aborted = new Promise<RunResult>((resolve) => {
      request.signal?.addEventListener('abort', () => resolve(failed('abort', request.signal?.reason)), { once: true })
    })
    const ran = script(request.bindings[0]!.functions as Record<string, BoundFunction>, request).then(
      (value): RunResult => (value === undefined ? { logs: [] } : { logs: [], value: value as JsonValue }),
      (error: unknown) => failed('exception', error)
    )
    return Promise.race([ran, aborted])
  }
})
