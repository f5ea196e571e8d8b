import type { Agent } from '../scopes/scope.ts'
import type { UserMessage } from '../tools/definition.ts'
import type { InFlight } from './execution.ts'
import type { Hooks } from './hooks.ts'
import type { Warn } from './materialize.ts'
import { type ToolResult, isObject, messageOf } from './result.ts'

/** Tells the observers, in order, once (core.md §15). Whatever they do, the outcome stands and the next one is told. */
export function publish(call: InFlight, result: ToolResult, observers: readonly Hooks['onResult'][], warn: Warn): void {
  const { exec } = call
  const details = { tool: exec.name, callId: exec.callId }
  for (const observer of observers) contained(() => observer(exec, result), 'a result observer failed', details, warn)
}

/** Tells of the messages that an agent's next step begins with (core.md §26.5), as contained as results are. */
export function publishStep(
  agent: Agent,
  messages: readonly UserMessage[],
  observers: readonly Hooks['onStep'][],
  warn: Warn
): void {
  for (const observer of observers) {
    contained(() => observer(agent, messages), 'a step observer failed', { session: agent.id }, warn)
  }
}

function contained(notify: () => unknown, message: string, details: Record<string, unknown>, warn: Warn): void {
  const failed = (error: unknown) => warn(message, { ...details, error: messageOf(error) })
  try {
    const returned = notify()
    if (isObject(returned) && typeof returned['then'] === 'function') Promise.resolve(returned).catch(failed)
  } catch (error) {
    failed(error)
  }
}
