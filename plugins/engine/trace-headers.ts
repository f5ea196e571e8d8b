import type { IncomingHttpHeaders } from 'node:http'
import {
  type Context,
  createTraceState,
  isSpanContextValid,
  ROOT_CONTEXT,
  type SpanContext,
  trace
} from '@opentelemetry/api'

/** Version, trace, parent, flags (W3C Trace Context); a later version may go on after them. */
const traceparentPattern = /^(?!ff)([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/

/** What the standard has everybody pass on at least. */
const maxTracestateLength = 512

/** The trace that a request belongs to. A header that is not as the standard says is ignored, as it says too. */
export function incomingTrace({ traceparent, tracestate }: IncomingHttpHeaders): Context | undefined {
  if (typeof traceparent !== 'string') return undefined
  const [, version, traceId = '', spanId = '', flags = '', more] = traceparentPattern.exec(traceparent) ?? []
  if (version === undefined || (version === '00' && more !== undefined)) return undefined
  const state = [tracestate ?? []].flat().join(',')
  const context: SpanContext = {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16) & 1,
    isRemote: true,
    ...(state === '' || state.length > maxTracestateLength ? {} : { traceState: createTraceState(state) })
  }
  return isSpanContextValid(context) ? trace.setSpanContext(ROOT_CONTEXT, context) : undefined
}

/** The headers that hand a span on. */
export function traceHeaders(context: SpanContext): Record<string, string> {
  if (!isSpanContextValid(context)) return {}
  const { traceId, spanId, traceFlags, traceState } = context
  const state = traceState?.serialize()
  return {
    traceparent: `00-${traceId}-${spanId}-${(traceFlags & 0xff).toString(16).padStart(2, '0')}`,
    ...(state === undefined || state === '' ? {} : { tracestate: state })
  }
}
