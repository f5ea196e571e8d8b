import { fuse } from '../../server/pipeline/cancellation.ts'
import type { Execution } from '../../server/pipeline/execution.ts'
import { failure, type ToolResult } from '../../server/pipeline/result.ts'
import { definePlugin } from '../define-plugin.ts'

/** Why a deadline's signal is aborted: known by identity, so that another timer's abort is never taken for this one. */
interface TimeoutReason {
  readonly code: 'TOOL_TIMEOUT'
  readonly timeoutMs: number
}

/**
 * Gives each call of a tool that declares `timeoutMs` a deadline (core.md §18). Cooperative: the body sees its signal abort, and the
 * call ends when the body does. What comes after the deadline is `TOOL_TIMEOUT`, whatever the body made of it.
 */
export const timeout = definePlugin({ name: 'timeout' }, (tools) => {
  tools.addHook('execute', (exec, next, tool) =>
    tool?.timeoutMs === undefined ? next() : within(tool.timeoutMs, exec, next)
  )
})

async function within(timeoutMs: number, exec: Execution, next: () => Promise<ToolResult>): Promise<ToolResult> {
  const reason: TimeoutReason = { code: 'TOOL_TIMEOUT', timeoutMs }
  const previous = exec.signal
  const timer = new AbortController()
  const deadline = fuse(previous, timer.signal)
  const handle = setTimeout(() => timer.abort(reason), timeoutMs)
  exec.signal = deadline.signal
  try {
    const result = await next()
    if (deadline.signal.reason !== reason) return result
    return failure(`tool call timed out after ${timeoutMs}ms`, { name: 'ToolTimeoutError', code: 'TOOL_TIMEOUT' })
  } finally {
    exec.signal = previous
    clearTimeout(handle)
    deadline.release()
  }
}
