import { createServer } from 'node:http'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { trace } from '@opentelemetry/api'
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor
} from '@opentelemetry/sdk-trace-base'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { incomingTrace, traceHeaders } from '../../../plugins/engine/trace-headers.ts'
import type { RunContext } from '../../../server/pipeline/execution.ts'
import { TestApp } from '../../helpers/app.ts'
import { lastMessage, openSession, postMcp, toolCall } from '../../helpers/mcp-client.ts'
import { serveApp } from '../../helpers/served-app.ts'
import { until } from '../../helpers/until.ts'

const metaServer = fileURLToPath(new URL('../../fixtures/programs/mcp-meta-server.js', import.meta.url))
const exporter = new InMemorySpanExporter()
const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
const parentId = '00f067aa0ba902b7'
const traceparent = `00-${traceId}-${parentId}-01`

beforeEach(() => {
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }))
})
afterEach(() => {
  trace.disable()
  exporter.reset()
})

const idOf = (span: ReadableSpan | undefined): string | undefined => span?.spanContext().spanId
const spansOf = (callId: string): { call: ReadableSpan | undefined; stages: ReadableSpan[] } => {
  const spans = exporter.getFinishedSpans()
  const call = spans.find(({ attributes }) => attributes['toolwright.call_id'] === callId)
  const stages = spans.filter(
    ({ parentSpanContext, name }) => parentSpanContext?.spanId === idOf(call) && name !== 'toolwright.call'
  )
  return { call, stages }
}

describe('spans', () => {
  it('a call is a span of its request’s trace, its stages are below it, and it says how it ended', async () => {
    const app = new TestApp(await serveApp({ 'tracing.enabled': 'true' }))
    let handed: Record<string, string> = {}
    app.boom = (exec) => {
      handed = app.app.tracing.propagationHeaders(exec)
      throw new Error('with a secret in it')
    }
    await app.post('/invoke', { name: 'echo', callId: 'c1' }, { traceparent, tracestate: 'v=1' })
    await app.post('/invoke', { name: 'boom', callId: 'c2', session: 's2' })

    const first = spansOf('c1')
    expect(first.call?.name).toBe('toolwright.call')
    expect([first.call?.spanContext().traceId, first.call?.parentSpanContext?.spanId]).toEqual([traceId, parentId])
    expect(first.call?.attributes).toEqual({
      'toolwright.tool': 'echo',
      'toolwright.call_id': 'c1',
      'toolwright.scope': 'global',
      'toolwright.session': 'default',
      'toolwright.outcome': 'success'
    })
    const stages = ['pre-execute', 'guard', 'dispatch', 'post-execute', 'finalize'].map(
      (stage) => `toolwright.${stage}`
    )
    expect(first.stages.map(({ name }) => name)).toEqual(stages)

    const second = spansOf('c2')
    expect(second.call?.parentSpanContext).toBeUndefined()
    expect(second.call?.attributes).toMatchObject({
      'toolwright.outcome': 'failure',
      'toolwright.stage': 'body',
      'toolwright.effect': 'unknown'
    })
    const dispatch = second.stages.find(({ name }) => name === 'toolwright.dispatch')
    expect(handed['traceparent']).toBe(`00-${second.call?.spanContext().traceId}-${idOf(dispatch)}-01`)
    expect(
      JSON.stringify(exporter.getFinishedSpans().map(({ attributes, events, status }) => [attributes, events, status]))
    ).not.toContain('secret')

    // The calls of a batch, and below the stage that runs it what a body calls.
    app.boom = async (exec: RunContext) => {
      const result = await app.app.pipeline.execute({
        callId: 'sub',
        rootCallId: exec.callId,
        name: 'echo',
        arguments: {},
        ...(exec.agent && { agent: exec.agent }),
        parent: exec.token,
        signal: exec.signal
      })
      return result.isError
    }
    const calls = [
      { name: 'echo', callId: 'b1' },
      { name: 'boom', callId: 'b2' }
    ]
    await app.post('/invoke/batch', { calls }, { traceparent })
    // Over MCP the request's `_meta` has the place of the headers; what is not as the standard says is ignored.
    const session = await openSession(app.served)
    const traced = async (id: number, meta: unknown): Promise<ReadableSpan | undefined> => {
      const call = { ...toolCall(id, 'echo'), params: { name: 'echo', _meta: meta } }
      const { result } = await lastMessage(postMcp(app.served, call, { session }))
      return spansOf(result._meta.callId).call
    }
    expect((await traced(1, { traceparent, tracestate: 'v=1' }))?.parentSpanContext).toMatchObject({
      ...{ traceId, spanId: parentId }
    })
    for (const meta of [{}, { traceparent: 7 }, { traceparent: 'nonsense', tracestate: [] }]) {
      const span = await traced(2, meta)
      expect([span?.name, span?.parentSpanContext]).toEqual(['toolwright.call', undefined])
    }

    for (const id of ['b1', 'b2', 'sub']) expect(spansOf(id).call?.spanContext().traceId).toBe(traceId)
    const outer = spansOf('b2').stages.find(({ name }) => name === 'toolwright.dispatch')
    expect(spansOf('sub').call?.parentSpanContext?.spanId).toBe(idOf(outer))
    expect(spansOf('sub').stages).toHaveLength(5)
  })

  it('an http tool gets the trace handed on in its headers, an MCP server in the _meta of the call', async () => {
    const seen: unknown[] = []
    const peer = createServer((request, response) => {
      seen.push(request.headers['traceparent'], request.headers['tracestate'])
      response.setHeader('content-type', 'application/json').end('{"value":"ok"}')
    }).listen(0, '127.0.0.1')
    await once(peer, 'listening')
    const { port } = peer.address() as { port: number }
    const server = { transport: 'stdio', command: process.execPath, args: [metaServer] }
    const app = new TestApp(
      await serveApp({
        'tracing.enabled': 'true',
        'httpTools.allowAddresses': '127.0.0.1',
        'mcp.servers': JSON.stringify({ far: server })
      })
    )
    const executor = { kind: 'http', url: `http://127.0.0.1:${port}/` }
    const tool = { name: 'far', description: 'Elsewhere.', parameters: { type: 'object' }, executor }
    expect((await app.post('/tools', tool)).status).toBe(201)
    await app.post('/invoke', { name: 'far', callId: 'http' }, { traceparent, tracestate: 'v=1' })
    peer.close()
    await until(() => app.app.mcpBridge.get('far')?.server.state.state === 'ready')
    const { body } = await app.post('/invoke', { name: 'mcp__far__meta', callId: 'mcp' }, { traceparent })

    const handedOn = (callId: string): string =>
      `00-${traceId}-${idOf(spansOf(callId).stages.find(({ name }) => name === 'toolwright.dispatch'))}-01`
    expect(seen).toEqual([handedOn('http'), 'v=1'])
    expect(JSON.parse(body.content[0].text)).toMatchObject({ traceparent: handedOn('mcp') })
  })

  it('off, there are none, and no header is handed on; nor are there metrics where they are off', async () => {
    const app = new TestApp(await serveApp({ 'metrics.enabled': 'false' }))
    let handed: unknown
    app.boom = (exec) => {
      handed = app.app.tracing.propagationHeaders(exec)
      return 1
    }
    await app.post('/invoke', { name: 'boom' }, { traceparent })
    expect([handed, exporter.getFinishedSpans()]).toEqual([{}, []])
    expect(app.app.tracing.incoming({ traceparent })).toBeUndefined()
    expect((await app.get('/metrics')).status).toBe(404)
  })
})

describe('traceparent (W3C Trace Context)', () => {
  const read = (headers: Parameters<typeof incomingTrace>[0]) => {
    const context = incomingTrace(headers)
    return context && trace.getSpanContext(context)
  }

  it('is handed on as it came', () => {
    const tracestate = 'a=1,b=2'
    const context = read({ traceparent, tracestate })
    expect(context && traceHeaders(context)).toEqual({ traceparent, tracestate })
    const later = read({ traceparent: `cc-${traceId}-${parentId}-03-what-is-to-come` })
    expect(later && traceHeaders(later)).toEqual({ traceparent })
  })

  it.each([
    '',
    'constructor',
    `ff-${traceId}-${parentId}-01`,
    `00-${traceId}-${parentId}-01-more`,
    `00-${traceId}-${parentId}`,
    `00-${traceId.toUpperCase()}-${parentId}-01`,
    `00-${'0'.repeat(32)}-${parentId}-01`,
    `00-${traceId}-${'0'.repeat(16)}-01`,
    `00-${traceId}x-${parentId}-01`,
    `00-${traceId}-${parentId}-01\n`,
    `00-${'a'.repeat(100_000)}-${parentId}-01`
  ])('header %# of these is none', (text) => expect(read({ traceparent: text })).toBeUndefined())

  it('a tracestate that is too long, or malformed, costs the state and not the trace', () => {
    for (const tracestate of ['x'.repeat(600), '===', 'a=1,'.repeat(200)]) {
      const context = read({ traceparent, tracestate })
      expect(context && traceHeaders(context)).toEqual({ traceparent })
    }
  })
})
