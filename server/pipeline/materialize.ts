import { deepFreeze } from '../json/deep-freeze.ts'
import { snapshot } from '../json/lossless.ts'
import type { Scope } from '../scopes/scope.ts'
import type { ToolDefinition } from '../tools/definition.ts'
import { cancelled } from './cancellation.ts'
import { type ExecutionInput, type ExecutionToken, type InFlight, openCall } from './execution.ts'
import { type Failure, fail, failure, failureFrom, messageOf, unknownTool } from './result.ts'

/** What the pipeline asks of the tool registry. A scope of `undefined` is the global view. */
export interface Catalogue {
  /** The tool of this name in that view, or undefined (core.md §7.13). */
  lookup(name: string, scope?: Scope): ToolDefinition | undefined
  /** Whether code mode keeps this visible tool from being called directly (core.md §7.9). */
  isCollapsed(name: string, scope?: Scope, parent?: ExecutionToken): boolean
}

export type Warn = (message: string, details: Record<string, unknown>) => void

/** A call that may go on, or one that ended here with its result (core.md §8.4 to §8.6). */
export interface Materialized {
  call: InFlight
  result?: Failure
}

/** Makes the execution: reads each input field once, looks the tool up, then copies and freezes the arguments (core.md §8). */
export function materialize(catalogue: Catalogue, input: ExecutionInput, warn: Warn): Materialized {
  const { callId, rootCallId, name, agent, parent, signal, argumentsError, isAsked } = input
  const { onProgress, onState, onPersonAwaited } = input
  if (!(signal instanceof AbortSignal)) throw new TypeError('an execution needs an AbortSignal')
  const tool = catalogue.lookup(name, agent?.scope)
  const identity = {
    callId,
    rootCallId,
    name,
    agent,
    parent,
    signal,
    tool,
    onProgress,
    onState,
    onPersonAwaited,
    isAsked
  }
  const call = openCall(identity, (error) =>
    warn('a progress listener failed', { tool: name, callId, error: messageOf(error) })
  )
  const isCollapsed = catalogue.isCollapsed(name, agent?.scope, parent)
  // The finalizer of a tool that this caller cannot reach directly must not speak for it (core.md §8.5).
  if (isCollapsed && !signal.aborted) call.finalizer = undefined

  if (argumentsError !== undefined) return { call, result: fail(call, 'arguments', failureFrom(argumentsError)) }
  try {
    call.arguments = deepFreeze(snapshot(input.arguments))
  } catch (error) {
    return { call, result: fail(call, 'arguments', failure(messageOf(error))) }
  }
  if (signal.aborted) return { call, result: cancelled(call) }
  if (isCollapsed) return { call, result: fail(call, 'name', collapsed(name)) }
  return { call }
}

const collapsed = (name: string): Failure => {
  const { error } = unknownTool(name)
  return failure(`${error.message}: here it is reached only from inside a run_code program`, error.info)
}
