import type { InFlight } from './execution.ts'
import { type Failure, type ToolResult, fail, failure, withContexts } from './result.ts'

export const abortedBeforeDispatch = (): Failure =>
  failure('tool call aborted before dispatch', { name: 'AbortError', code: 'ABORTED_BEFORE_DISPATCH' })

const aborted = (): Failure => failure('tool call aborted', { name: 'AbortError', code: 'ABORTED' })

/** The outcome of a call that an abort stopped: its code says whether a body was ever invoked (core.md §30). */
export function cancelled(call: InFlight): Failure {
  if (!call.bodyInvoked) return fail(call, 'cancelled', abortedBeforeDispatch())
  // A body that has seen its signal may have stopped half-way and still returned (api.md §2).
  call.effect = 'unknown'
  return fail(call, 'cancelled', aborted())
}

/** Cancellation replaces only a success, and keeps its contexts (core.md §12.12, §13.5, §17). */
export function unlessCancelled(call: InFlight, result: ToolResult): ToolResult {
  if (result.isError || !call.callerSignal.aborted) return result
  return withContexts(cancelled(call), result.additionalContexts, undefined)
}

/**
 * One signal that aborts with whichever of the two does first, and with the first one's reason when both have already
 * (core.md §12.3). `AbortSignal.any` would tie it to long-lived sources for good; here `release` cuts both ties.
 */
export function fuse(first: AbortSignal, second: AbortSignal): { signal: AbortSignal; release: () => void } {
  if (first === second) return { signal: first, release: () => {} }
  const controller = new AbortController()
  const relays = [first, second].map((source) => ({ source, relay: () => controller.abort(source.reason) }))
  const release = () => {
    for (const { source, relay } of relays) source.removeEventListener('abort', relay)
  }
  for (const { source, relay } of relays) {
    if (source.aborted) relay()
    else source.addEventListener('abort', relay, { once: true })
  }
  return { signal: controller.signal, release }
}
