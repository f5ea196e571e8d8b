import type { IncomingHttpHeaders } from 'node:http'
import { trace } from '@opentelemetry/api'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../../server/config/schema.ts'
import { CallSpans, type TracedCall } from './call-spans.ts'
import { incomingTrace } from './trace-headers.ts'

declare module '../../server/services.ts' {
  interface Services {
    tracing: Tracing
  }
}

export interface Tracing {
  /** The `trace` of a request by its `traceparent` and `tracestate`; nothing is looked at where tracing is off. */
  incoming(headers: IncomingHttpHeaders): unknown
  /** The headers with which an executor hands the trace of a running call on (W3C Trace Context); none where tracing is off. */
  propagationHeaders(call: TracedCall): Record<string, string>
}

const off: Tracing = { incoming: () => undefined, propagationHeaders: () => ({}) }

/** OpenTelemetry spans of calls (docs/metrics.md). Where the setting is off nobody observes the calls. */
export const tracing = fp(
  async (fastify: FastifyInstance, { tracing: { enabled } }: Pick<Config, 'tracing'>) => {
    if (!enabled) return void fastify.decorate('tracing', off)
    // A provider that is registered later is found through this tracer too.
    const spans = new CallSpans(trace.getTracer('toolwright'))
    fastify.callObservers.add(spans)
    fastify.decorate('tracing', { incoming: incomingTrace, propagationHeaders: (call) => spans.headersFor(call) })
    fastify.addHook('onReady', async () => {
      fastify.httpTools.headersOf = (call) => spans.headersFor(call)
    })
  },
  { name: 'tracing', fastify: '5.x', dependencies: ['tools'] }
)
