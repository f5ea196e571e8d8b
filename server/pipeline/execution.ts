import type { JsonValue } from '../json/lossless.ts'
import type { Agent } from '../scopes/scope.ts'
import type { ContentBlock, ToolDefinition, UserMessage } from '../tools/definition.ts'
import type { Effect, ToolResult } from './result.ts'

/** Opaque identity of one execution, never shown to a model, the log or a program (core.md §1). */
export type ExecutionToken = symbol & { readonly __token?: never }

/** What a waiting caller can be told of a call that has started. */
export type CallState = 'awaiting-approval' | 'running'

/** What a caller hands in (core.md §1). `signal` is mandatory: the registry never makes one up. */
export interface ExecutionInput {
  callId: string
  rootCallId?: string
  name: string
  arguments: unknown
  agent?: Agent
  /** The enclosing execution's token. Its presence means a call made by a running body (core.md §20). */
  parent?: ExecutionToken
  signal: AbortSignal
  /** What the edge found wrong with the arguments' text (core.md §2.8); the call fails with it as core.md §8.4 says. */
  argumentsError?: Error
  /** An earlier run of the server asked about this call: it is asked about whatever hooks say now, save a denial (api.md §7). */
  isAsked?: boolean
  /** The trace that the request belongs to; only who observes the pipeline looks at it. */
  trace?: unknown
  /** Called with each piece of partial output a body reports; seen live as `tool/progress` (api.md §5). */
  onProgress?: (chunk: string) => void
  /** Called when the call begins to wait for an approval, and when that wait is over (api.md §2). */
  onState?: (state: CallState) => void
  /**
   * Called when a running body begins to wait for a person. What it returns is called when that wait is over, and resolves when the
   * body may go on (api.md §7).
   */
  onPersonAwaited?: () => () => Promise<void>
}

/** One call in flight, as every stage sees it: one frozen object, whose `signal` the around stage may set (core.md §8.7). */
export interface Execution {
  readonly callId: string
  readonly rootCallId: string
  readonly name: string
  readonly arguments: JsonValue | undefined
  readonly agent?: Agent
  readonly parent?: ExecutionToken
  readonly token: ExecutionToken
  signal: AbortSignal
}

/** What a body receives: its execution, and its ways to talk to the loop (core.md §19). All functions bear detaching. */
export interface RunContext extends Execution {
  readonly deferContext: (message: UserMessage) => void
  readonly concludeTurn: () => void
  /** Reports partial output, seen live and not stored. */
  readonly progress: (chunk: string) => void
  /** Waits for a person: meanwhile the call holds no place among those that run (api.md §7). Settles as `answer` does. */
  readonly awaitPerson: <T>(answer: Promise<T>) => Promise<T>
}

/** What first turned a call into a failure: `arguments`, `name` and `denial` are the call's own fault (api.md §2). */
export type StoppedAt =
  | 'arguments'
  | 'name'
  | 'denial'
  | 'cancelled'
  | 'pre-execute'
  | 'body'
  | 'output'
  | 'wrapper'
  | 'post-execute'
  | 'result'
  | 'finalize'

export type Finalizer = (exec: Execution, result: ToolResult) => ContentBlock[] | undefined

/** The state of one call, made in the first stage and handed on. Hooks and bodies see only its `exec`. */
export interface InFlight {
  readonly exec: RunContext
  /** When it was made, by the clock that never goes back, in milliseconds. */
  readonly openedAt: number
  readonly callerSignal: AbortSignal
  readonly onState: ((state: CallState) => void) | undefined
  readonly isAsked: boolean
  /** Captured before the arguments are touched (core.md §8.2). */
  finalizer: Finalizer | undefined
  /** The tool last resolved for this call. */
  tool: ToolDefinition | undefined
  /** Frozen; an approver's edit replaces them (core.md §10.5). */
  arguments: JsonValue | undefined
  /** What `exec.signal` reads. */
  signal: AbortSignal
  /** True while the around stage runs: only then is `exec.signal` settable, and is what a body says to the loop heard. */
  isDispatching: boolean
  bodyInvoked: boolean
  effect: Effect
  stoppedAt: StoppedAt | undefined
  deferred: UserMessage[] | undefined
  concludes: boolean
  /** The last result known to be lossless and deeply frozen, which need not be copied again. */
  sealed: ToolResult | undefined
}

export interface CallIdentity {
  callId: string
  rootCallId: string | undefined
  name: string
  agent: Agent | undefined
  parent: ExecutionToken | undefined
  signal: AbortSignal
  tool: ToolDefinition | undefined
  onProgress: ((chunk: string) => void) | undefined
  onState: ((state: CallState) => void) | undefined
  onPersonAwaited: (() => () => Promise<void>) | undefined
  isAsked: boolean | undefined
}

/** Makes the per-call object. `onProgressError` hears of a progress listener that threw: the body must not. */
export function openCall(identity: CallIdentity, onProgressError: (error: unknown) => void): InFlight {
  const {
    callId,
    rootCallId = callId,
    name,
    agent,
    parent,
    signal,
    tool,
    onProgress,
    onState,
    onPersonAwaited,
    isAsked = false
  } = identity
  // Accessors, so that the object can be frozen from the start: one identity through all stages, nothing writable but `signal`.
  const exec: RunContext = {
    callId,
    rootCallId,
    name,
    get arguments() {
      return call.arguments
    },
    token: Symbol('execution'),
    get signal() {
      return call.signal
    },
    set signal(next: AbortSignal) {
      if (!call.isDispatching) throw new TypeError('only the execute stage may set exec.signal')
      if (!(next instanceof AbortSignal)) throw new TypeError('exec.signal must be an AbortSignal')
      call.signal = next
    },
    deferContext(message) {
      if (call.isDispatching) (call.deferred ??= []).push(message)
    },
    concludeTurn() {
      if (call.isDispatching) call.concludes = true
    },
    progress(chunk) {
      if (typeof chunk !== 'string') throw new TypeError('progress takes a string')
      if (onProgress === undefined || !call.isDispatching) return
      try {
        onProgress(chunk)
      } catch (error) {
        onProgressError(error)
      }
    },
    async awaitPerson(answer) {
      const resume = call.isDispatching ? onPersonAwaited?.() : undefined
      try {
        return await answer
      } finally {
        await resume?.()
      }
    },
    ...(agent === undefined ? undefined : { agent }),
    ...(parent === undefined ? undefined : { parent })
  }
  const call: InFlight = {
    exec: Object.freeze(exec),
    openedAt: performance.now(),
    callerSignal: signal,
    onState,
    isAsked,
    finalizer: tool?.finalizeContent?.bind(tool),
    tool,
    arguments: undefined,
    signal,
    isDispatching: false,
    bodyInvoked: false,
    effect: 'none',
    stoppedAt: undefined,
    deferred: undefined,
    concludes: false,
    sealed: undefined
  }
  return call
}
