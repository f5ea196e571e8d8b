import { type Context, context, ROOT_CONTEXT, type Span, SpanStatusCode, trace, type Tracer } from '@opentelemetry/api'
import type { InFlight } from '../../server/pipeline/execution.ts'
import type { CallObserver, ObservedStage } from '../../server/pipeline/observers.ts'
import type { ToolResult } from '../../server/pipeline/result.ts'
import { traceHeaders } from './trace-headers.ts'

/** A call, by the identity of its execution in this process. */
export interface TracedCall {
  readonly token?: symbol
}

interface OpenSpan {
  readonly span: Span
  /** What the spans of its stages begin in. */
  readonly context: Context
  /** The stage that runs now. */
  stage: { readonly span: Span; readonly context: Context } | undefined
}

/**
 * A span for each call, and one for each of its stages. A call that a program makes is a child of the stage that runs the program; any
 * other is one of its request's trace, or the root of a new one.
 */
export class CallSpans implements CallObserver {
  readonly #tracer: Tracer
  readonly #open = new WeakMap<symbol, OpenSpan>()

  constructor(tracer: Tracer) {
    this.#tracer = tracer
  }

  opened({ exec }: InFlight, requested: unknown): void {
    const enclosing = exec.parent === undefined ? undefined : this.#open.get(exec.parent)
    const within = enclosing?.stage?.context ?? enclosing?.context ?? (requested as Context | undefined)
    const span = this.#tracer.startSpan(
      'toolwright.call',
      {
        attributes: {
          'toolwright.tool': exec.name,
          'toolwright.call_id': exec.callId,
          ...(exec.agent === undefined
            ? {}
            : { 'toolwright.scope': exec.agent.scope.id, 'toolwright.session': exec.agent.id })
        }
      },
      within ?? ROOT_CONTEXT
    )
    this.#open.set(exec.token, { span, context: trace.setSpan(within ?? ROOT_CONTEXT, span), stage: undefined })
  }

  stage({ exec }: InFlight, stage: ObservedStage): (() => void) | undefined {
    const open = this.#open.get(exec.token)
    if (open === undefined) return undefined
    const span = this.#tracer.startSpan(`toolwright.${stage}`, {}, open.context)
    open.stage = { span, context: trace.setSpan(open.context, span) }
    return () => {
      open.stage = undefined
      span.end()
    }
  }

  /** Spans that the body makes by itself are its children, where the operator has registered a context manager. */
  within<T>({ exec }: InFlight, run: () => T): T {
    const stage = this.#open.get(exec.token)?.stage
    return stage === undefined ? run() : context.with(stage.context, run)
  }

  closed(call: InFlight, result: ToolResult): void {
    const span = this.#open.get(call.exec.token)?.span
    if (span === undefined) return
    this.#open.delete(call.exec.token)
    span.setAttribute('toolwright.outcome', result.isError ? 'failure' : 'success')
    if (result.isError) {
      span.setAttribute('toolwright.stage', call.stoppedAt ?? 'result')
      span.setAttribute('toolwright.effect', call.effect)
      if (result.error.info !== undefined) span.setAttribute('toolwright.error_code', result.error.info.code)
      // Without the message, which may quote arguments.
      span.setStatus({ code: SpanStatusCode.ERROR })
    }
    span.end()
  }

  /** The headers that hand the trace of a running call on to whoever runs it elsewhere. */
  headersFor({ token }: TracedCall): Record<string, string> {
    const open = token && this.#open.get(token)
    return open === undefined ? {} : traceHeaders((open.stage?.span ?? open.span).spanContext())
  }
}
