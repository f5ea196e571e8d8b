import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../server/config/load.ts'
import { accept, deny } from '../../server/pipeline/decisions.ts'
import { contextFrom, startApp } from '../helpers/app.ts'
import { until } from '../helpers/until.ts'

const gate = (callId: string, name = 'gate') => ({ name, callId, arguments: { id: callId } })
const results = (log: readonly string[]): string[] => log.filter((line) => line.startsWith('tool/result'))
const codes = (body: any): string[] => body.results.map((result: any) => result.error?.info?.code ?? 'none')

describe('POST /invoke/batch (core.md §22)', () => {
  it('C104 bodies overlap, results, hooks and answers keep model order', async () => {
    const app = await startApp()
    const trace: string[] = []
    app.app.tools.addHook('preExecute', (exec, next) => (trace.push(`pre:${exec.callId}`), next()))
    app.app.tools.addHook('postExecute', (exec, _result, next) => (trace.push(`post:${exec.callId}`), next()))
    const batch = app.batch([gate('c1'), gate('c2'), gate('c3')])
    for (const id of ['c1', 'c2', 'c3']) await app.entered(id)
    app.release('c3', 'c2')
    await until(() => app.trace.includes('end:c2'))
    expect(results(await app.log())).toEqual([])
    app.release('c1')
    const { status, body } = await batch
    expect(status).toBe(200)
    expect(body.results.map(({ callId, value }: any) => [callId, value])).toEqual([
      ['c1', 'done-c1'],
      ['c2', 'done-c2'],
      ['c3', 'done-c3']
    ])
    expect(await app.log()).toEqual([
      'turn/start 1',
      'step/start 1/1',
      'tool/call c1',
      'tool/call c2',
      'tool/call c3',
      'tool/result c1',
      'tool/result c2',
      'tool/result c3',
      'step/end 1/1'
    ])
    expect(trace).toEqual(['pre:c1', 'pre:c2', 'pre:c3', 'post:c1', 'post:c2', 'post:c3'])
  })

  it('C105 an exclusive call is a barrier', async () => {
    const app = await startApp()
    app.release('r1', 'w', 'r3')
    await app.batch([gate('r1'), gate('w', 'xgate'), gate('r3')])
    expect(app.trace).toEqual(['body:r1', 'end:r1', 'body:w', 'end:w', 'body:r3', 'end:r3'])
  })

  it('C106 the cap rolls; nonsense caps are refused at configuration', async () => {
    const app = await startApp({ 'calls.maxParallelToolCalls': '2' })
    const batch = app.batch([gate('c1'), gate('c2'), gate('c3'), gate('c4')])
    await app.entered('c2')
    expect(app.trace).toEqual(['body:c1', 'body:c2'])
    app.release('c1')
    await app.entered('c3')
    expect((await app.log()).slice(2)).toEqual(['tool/call c1', 'tool/call c2', 'tool/result c1', 'tool/call c3'])
    app.release('c2', 'c3', 'c4')
    expect((await batch).body.results).toHaveLength(4)
    for (const cap of ['0', '1.5']) {
      expect(() => loadConfig({ flags: new Map([['calls.maxParallelToolCalls', cap]]) })).toThrow(
        /maxParallelToolCalls/
      )
    }
  })

  it('C106 a cap of 1 is serial', async () => {
    const app = await startApp({ 'calls.maxParallelToolCalls': '1' })
    app.release('c1', 'c2')
    await app.batch([gate('c1'), gate('c2')])
    expect(app.trace).toEqual(['body:c1', 'end:c1', 'body:c2', 'end:c2'])
  })

  it('C109 mixed outcomes in a pool', async () => {
    const app = await startApp()
    const posts: string[] = []
    app.app.tools.addHook('preExecute', (exec, next) => {
      if (exec.callId === 'c2') return deny('not this one')
      if (exec.callId === 'c3') throw new Error('policy broke')
      return next()
    })
    app.app.tools.addHook('postExecute', (exec, _result, next) => (posts.push(exec.callId), next()))
    const batch = app.batch([gate('c1'), gate('c2'), gate('c3')])
    await app.entered('c1')
    app.release('c1')
    const { body } = await batch
    expect(app.trace).toEqual(['body:c1', 'end:c1'])
    expect(posts).toEqual(['c1', 'c2'])
    expect(body.results.map(({ error }: any) => error?.message)).toEqual([undefined, 'not this one', 'policy broke'])
    expect(results(await app.log())).toEqual(['tool/result c1', 'tool/result c2', 'tool/result c3'])
  })

  it('C111 aborted before the start: adjacent pairs, each citing its call, and nothing else ran', async () => {
    const app = await startApp({ 'calls.maxConcurrent': '1' })
    const seen: string[] = []
    app.app.tools.addHook('preExecute', (exec, next) => (seen.push(exec.callId), next()))
    app.app.tools.addHook('onResult', (exec) => seen.push(exec.callId))
    const first = app.post('/invoke', { ...gate('blocker'), session: 'other' })
    await app.entered('blocker')
    const batch = app.batch([gate('c1'), gate('c2', 'xgate'), gate('c3')])
    for (const id of ['c1', 'c2', 'c3']) {
      await app.state(id, 'queued')
      expect((await app.cancel(id)).body.state).toBe('queued')
    }
    const { status, body } = await batch
    expect(status).toBe(200)
    expect(codes(body)).toEqual(Array(3).fill('ABORTED_BEFORE_DISPATCH'))
    expect(body.results[0].error).toMatchObject({ info: { name: 'AbortError' }, effect: 'none', retryable: true })
    const events = (await app.events()).filter(({ type }) => type.startsWith('tool/'))
    expect(events.map(({ type }) => type)).toEqual(Array.from({ length: 3 }, () => ['tool/call', 'tool/result']).flat())
    for (const [index, { type, sourceEventSeqs }] of events.entries()) {
      if (type === 'tool/result') expect(sourceEventSeqs).toEqual([events[index - 1]?.seq])
    }
    expect(seen).toEqual(['blocker'])
    app.release('blocker')
    expect((await first).status).toBe(200)
  })

  it('C113 an aborted turn drains what runs and skips the rest; contexts of the drain enter the next turn', async () => {
    const app = await startApp({ 'calls.maxParallelToolCalls': '2' })
    app.app.tools.addHook('postExecute', async (exec, _result, next) => ({
      ...(await next()),
      additionalContexts: [contextFrom(exec.callId)]
    }))
    const batch = app.batch([gate('c1'), gate('c2'), gate('c3'), gate('c4'), gate('w', 'xgate')])
    await app.entered('c2')
    const end = app.post('/sessions/default/turns/1/end', { reason: 'aborted', cause: 'the user said stop' })
    await until(() => app.app.callEngine.calls.find('default', 'c4')?.controller.signal.aborted === true)
    expect((await app.post('/invoke', { name: 'echo' })).body.error.code).toBe('TURN_BUSY')
    app.release('c1', 'c2')
    const { body } = await batch
    expect(codes(body)).toEqual(['ABORTED', 'ABORTED', ...Array(3).fill('ABORTED_BEFORE_DISPATCH')])
    expect(await end).toMatchObject({ status: 200, body: { turn: 1, reason: 'aborted' } })
    await app.invoke({ name: 'echo', callId: 'next' })
    expect((await app.log()).slice(4)).toEqual([
      'tool/result c1',
      'tool/result c2',
      ...['c3', 'c4', 'w'].flatMap((id) => [`tool/call ${id}`, `tool/result ${id}`]),
      'step/end 1/1',
      'turn/end 1 aborted',
      'turn/start 2',
      'user/message ctx-c1',
      'user/message ctx-c2',
      'tool/call next',
      'tool/result next'
    ])
    const ended = (await app.events()).find(({ type }) => type === 'turn/end')
    expect(ended?.data.reason).toEqual({ kind: 'aborted', cause: 'the user said stop' })
    expect(app.trace.filter((line) => line.startsWith('body'))).toEqual(['body:c1', 'body:c2', 'body:next'])
  })

  it('C114 the log has what the model wrote, and of a result no value', async () => {
    const app = await startApp()
    app.app.tools.addHook('preExecute', (exec, next) => (exec.callId === 'denied' ? deny('no') : next()))
    app.app.tools.addHook('postExecute', async (exec, _result, next) =>
      exec.callId === 'spoken' ? { ...accept(), content: [{ type: 'text', text: 'replaced' }] } : next()
    )
    const raw = '{ "text" : "spaced" }'
    const { body } = await app.batch([
      { name: 'echo', callId: 'empty', rawArguments: '' },
      { name: 'need', callId: 'broken', rawArguments: 'not json' },
      { name: 'echo', callId: 'spoken', rawArguments: raw },
      { name: 'echo', callId: 'denied' },
      { name: 'meta', callId: 'meta', arguments: { v: 'x' } }
    ])
    expect(body.results.map(({ isError }: any) => isError)).toEqual([false, true, false, true, false])
    expect(body.results[1].error.info.code).toBe('INVALID_ARGS')
    const events = await app.events()
    const calls = events.filter(({ type }) => type === 'tool/call')
    expect(calls.map(({ data }) => data.arguments)).toEqual(['', 'not json', raw, '{}', '{"v":"x"}'])
    const result = (id: string): any =>
      events.find(({ type, data }) => type === 'tool/result' && data.message.source.callId === id)?.data
    expect(result('broken').error).toEqual({ name: 'ToolArgsError', code: 'INVALID_ARGS' })
    expect(result('denied').message.content[0].isError).toBe(true)
    expect('error' in result('denied')).toBe(false)
    expect(result('meta').meta).toEqual({ projected: 'x' })
    expect(result('spoken').message.content[0]).toEqual({
      type: 'tool-result',
      toolCallId: 'spoken',
      content: [{ type: 'text', text: 'replaced' }],
      isError: false
    })
    expect(JSON.stringify(events)).not.toContain('"value"')
  })

  it('C115 contexts follow the last result, after the next step begins, in model order', async () => {
    const app = await startApp()
    app.boom = (exec) => (exec.deferContext(contextFrom(exec.callId)), 1)
    const { body } = await app.batch([
      { name: 'boom', callId: 'c1' },
      { name: 'boom', callId: 'c2' }
    ])
    expect(body.additionalContexts.map(({ id }: any) => id)).toEqual(['ctx-c1', 'ctx-c2'])
    const next = await app.batch([{ name: 'echo', callId: 'c3' }])
    expect(next.body.additionalContexts).toEqual([])
    expect((await app.log()).slice(5)).toEqual([
      'tool/result c2',
      'step/end 1/1',
      'step/start 1/2',
      'user/message ctx-c1',
      'user/message ctx-c2',
      'tool/call c3',
      'tool/result c3',
      'step/end 1/2'
    ])
  })

  it('C115 a concluding call among siblings: all commit, and the turn ends by itself', async () => {
    const app = await startApp()
    app.boom = (exec) => (exec.concludeTurn(), 1)
    const { body } = await app.batch([
      { name: 'boom', callId: 'c1' },
      { name: 'echo', callId: 'c2' }
    ])
    expect(body.concluded).toBe(true)
    expect(body.results.map(({ concludesTurn }: any) => concludesTurn)).toEqual([true, undefined])
    expect((await app.log()).slice(-3)).toEqual(['tool/result c2', 'step/end 1/1', 'turn/end 1 completed'])
  })

  it('C115 with a context queued the concluded turn stays open for one more step', async () => {
    const app = await startApp()
    app.boom = (exec) => (exec.deferContext(contextFrom('late')), exec.concludeTurn(), 1)
    await app.batch([{ name: 'boom', callId: 'c1' }])
    expect((await app.log()).at(-1)).toBe('step/end 1/1')
    await app.batch([{ name: 'echo', callId: 'c2' }])
    expect((await app.log()).slice(-5)).toEqual([
      'step/start 1/2',
      'user/message ctx-late',
      'tool/call c2',
      'tool/result c2',
      'step/end 1/2'
    ])
  })

  it('streams each committed result as a line of its own', async () => {
    const app = await startApp()
    const response = await app.served.call('/invoke/batch', {
      json: { calls: [{ name: 'echo', callId: 'c1' }, gate('c2')] },
      headers: { accept: 'application/x-ndjson' }
    })
    expect(response.headers.get('content-type')).toBe('application/x-ndjson')
    const reader = (response.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).getReader()
    const first = await reader.read()
    expect(JSON.parse(first.value ?? '')).toMatchObject({ callId: 'c1', isError: false })
    app.release('c2')
    const second = await reader.read()
    expect(JSON.parse(second.value ?? '')).toMatchObject({ callId: 'c2', value: 'done-c2' })
    expect((await reader.read()).done).toBe(true)
  })

  it('refuses a streamed batch before its first line as any other', async () => {
    const app = await startApp()
    const calls = [
      { name: 'echo', callId: 'c1' },
      { name: 'echo', callId: 'c1' }
    ]
    const { status, body } = await app.post('/invoke/batch', { calls }, { accept: 'application/x-ndjson' })
    expect([status, body.error.code]).toEqual([400, 'BAD_REQUEST'])
  })

  it('a known call attaches or replays; one that conflicts refuses the batch before anything runs', async () => {
    const app = await startApp({}, { isDurable: true })
    await app.invoke({ name: 'count', callId: 'old' })
    const running = app.post('/invoke', gate('live'))
    await app.entered('live')
    const conflict = await app.batch([
      { name: 'count', callId: 'new' },
      { name: 'count', callId: 'old', arguments: { id: 'x' } }
    ])
    expect([conflict.status, conflict.body.error.code]).toEqual([409, 'CALL_CONFLICT'])
    const conflictsLive = await app.batch([
      { name: 'count', callId: 'new' },
      { name: 'gate', callId: 'live' }
    ])
    expect(conflictsLive.body.error.code).toBe('CALL_CONFLICT')
    expect(app.counted).toBe(1)
    const batch = app.batch([{ name: 'count', callId: 'old' }, gate('live'), { name: 'count', callId: 'new' }])
    app.release('live')
    const { body } = await batch
    expect(body.results.map(({ value, replayed }: any) => [value, replayed])).toEqual([
      ['1', true],
      ['done-live', undefined],
      ['2', undefined]
    ])
    expect((await running).status).toBe(200)
    expect((await app.batch([{ name: 'count', callId: 'old' }])).body.results[0].replayed).toBe(true)
  })

  it('F67 one batch of identical calls runs each once', async () => {
    const app = await startApp()
    await app.batch(['a', 'b', 'c'].map((callId) => ({ name: 'count', callId })))
    expect(app.counted).toBe(3)
  })

  it('a caller that leaves aborts its unnamed calls; named ones go on', async () => {
    const app = await startApp()
    const leave = new AbortController()
    const calls = [gate('named'), { name: 'coop' }, { name: 'coop' }]
    const left = fetch(`http://127.0.0.1:${app.served.port}/invoke/batch`, {
      method: 'POST',
      signal: leave.signal,
      headers: { authorization: `Bearer ${app.served.admin}`, 'content-type': 'application/json' },
      body: JSON.stringify({ calls })
    }).catch(() => 'left')
    await until(() => app.trace.length === 3)
    leave.abort()
    expect(await left).toBe('left')
    app.release('named')
    await until(async () => results(await app.log()).length === 3)
    const events = (await app.events()).filter(({ type }) => type === 'tool/result')
    expect(events.map(({ data }) => data.error?.code)).toEqual([undefined, 'ABORTED', 'ABORTED'])
  })

  it('F37 an unsafe integer fails its own call, naming the path', async () => {
    const app = await startApp()
    const raw =
      '{"calls":[{"name":"echo","arguments":{"text":"ok"}},{"name":"echo","arguments":{"ids":[1,2512292042121000001]}}]}'
    const answer = await fetch(`http://127.0.0.1:${app.served.port}/invoke/batch`, {
      method: 'POST',
      headers: { authorization: `Bearer ${app.served.admin}`, 'content-type': 'application/json' },
      body: raw
    })
    const { results: both } = (await answer.json()) as any
    expect(both[0].isError).toBe(false)
    expect(both[1].error.info.code).toBe('INVALID_ARGS')
    expect(both[1].error.message).toContain('ids[1]')
  })

  it('400 for what is no batch, and nothing is left of it', async () => {
    const app = await startApp()
    for (const body of [
      { calls: [] },
      { calls: {} },
      { calls: [{ name: 'echo', arguments: {}, rawArguments: '' }] },
      { calls: [{ name: 'echo', callId: 'a\u0007' }] },
      { calls: [{ name: 'echo', turn: 1 }] }
    ]) {
      expect(await app.post('/invoke/batch', body)).toMatchObject({
        status: 400,
        body: { error: { code: 'BAD_REQUEST' } }
      })
    }
    expect((await app.get('/sessions')).body.sessions).toEqual([])
  })
})
