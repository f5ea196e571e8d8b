import type { JsonValue } from '../json/lossless.ts'
import type { Agent, Scope } from '../scopes/scope.ts'
import { type SlotKey, type Undo, slotKey } from '../scopes/slots.ts'
import type { ContentBlock, ToolDefinition, UserMessage } from '../tools/definition.ts'
import type { ApprovalAsk, ApprovalOutcome, PostDecision, PreDecision } from './decisions.ts'
import type { Awaitable } from './chain.ts'
import type { Execution } from './execution.ts'
import type { ToolResult } from './result.ts'

/** A settled call of a running program, as it is about to be logged (core.md §29, code-mode.md §13.3). */
export interface DispatchLogEntry {
  readonly agent?: Agent
  readonly rootCallId: string
  readonly parentCallId: string
  readonly subCallId: string
  readonly name: string
  readonly arguments: JsonValue
  readonly isError: boolean
  readonly content: readonly ContentBlock[]
}

/**
 * The stages that take hooks (architecture.md §4). `next()` runs the rest of the chain, takes no arguments, and may be called
 * once; again, and only in sequence, in the execute stage (core.md §9.4).
 */
export interface Hooks {
  preExecute: (exec: Execution, next: () => Promise<PreDecision>) => Awaitable<PreDecision>
  /** `tool` is what the caller's view has under this name now, if anything (core.md §18.1). */
  execute: (exec: Execution, next: () => Promise<ToolResult>, tool: ToolDefinition | undefined) => Awaitable<ToolResult>
  postExecute: (exec: Execution, result: ToolResult, next: () => Promise<PostDecision>) => Awaitable<PostDecision>
  /** Notified of every outcome; what it returns is ignored, what it throws contained (core.md §15). */
  onResult: (exec: Execution, result: ToolResult) => unknown
  /** Answers an ask in place of a person; `next()` asks the next answerer, at last the people (core.md §25.4). */
  approvalRequest: (ask: ApprovalAsk, next: () => Promise<ApprovalOutcome>) => Awaitable<ApprovalOutcome>
  /** May replace the durable copy of a program's call, never what the program gets (code-mode.md §13.3). */
  dispatchLog: (
    entry: DispatchLogEntry,
    next: () => Promise<readonly ContentBlock[]>
  ) => Awaitable<readonly ContentBlock[]>
  /** Notified of the messages that an agent's next step begins with, before it begins (core.md §26.5). */
  onStep: (agent: Agent, messages: readonly UserMessage[]) => unknown
}

export type Stage = keyof Hooks

const keys: { readonly [S in Stage]: SlotKey<Hooks[S]> } = {
  preExecute: slotKey('preExecute hooks'),
  execute: slotKey('execute hooks'),
  postExecute: slotKey('postExecute hooks'),
  onResult: slotKey('onResult hooks'),
  approvalRequest: slotKey('approvalRequest hooks'),
  dispatchLog: slotKey('dispatchLog hooks'),
  onStep: slotKey('onStep hooks')
}

/** Hangs a hook on a stage for the calls of this scope and its descendants (core.md §7.14, §9.1). */
export function addHook<S extends Stage>(
  scope: Scope,
  stage: S,
  hook: Hooks[S],
  options: { prepend?: boolean } = {}
): Undo {
  if (!Object.hasOwn(keys, stage)) throw new TypeError(`there is no stage "${stage}"`)
  if (typeof hook !== 'function') throw new TypeError(`a ${stage} hook must be a function`)
  return scope.slot<Hooks[S]>(keys[stage]).add(hook, options)
}

const none: readonly never[] = Object.freeze([])

/** The hooks of a stage at this moment, outermost first. Without hooks nothing is allocated: this is asked four times a call. */
export function hooksOf<S extends Stage>(stage: S, chain: readonly Scope[]): readonly Hooks[S][] {
  let hooks: readonly Hooks[S][] = none
  for (const scope of chain) {
    const slot = scope.slot<Hooks[S]>(keys[stage])
    if (slot.size > 0) hooks = hooks.length === 0 ? slot.values() : [...hooks, ...slot.values()]
  }
  return hooks
}
