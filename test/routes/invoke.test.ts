import { describe, expect, it } from 'vitest'
import { ask, deny } from '../../server/pipeline/decisions.ts'
import { contextFrom, startApp, type TestApp } from '../helpers/app.ts'
import { sendRaw, statusOf } from '../helpers/raw-http.ts'
import { until } from '../helpers/until.ts'

const gate = (callId: string, name = 'gate') => ({ name, callId, arguments: { id: callId } })

/** Posts a call and leaves before the answer; resolves when the server has noticed. */
async function postAndLeave(app: TestApp, body: unknown, whenBegun: () => boolean): Promise<void> {
  const leave = new AbortController()
  const left = fetch(`http://127.0.0.1:${app.served.port}/invoke`, {
    method: 'POST',
    signal: leave.signal,
    headers: { authorization: `Bearer ${app.served.admin}`, 'content-type': 'application/json' },
    body: JSON.stringify(body)
  })
  await until(whenBegun)
  leave.abort()
  await left.catch(() => undefined)
}

const resultCodes = async (app: TestApp): Promise<unknown[]> =>
  (await app.events()).filter(({ type }) => type === 'tool/result').map(({ data }) => data.error?.code)

describe('POST /invoke (api.md §2)', () => {
  it('answers a success and a failure of the tool alike, and logs an unknown tool as the error it is (F47)', async () => {
    const app = await startApp()
    const success = await app.invoke({ name: 'meta', arguments: { v: 'x' }, callId: 'c1' })
    expect(success).toEqual({
      callId: 'c1',
      name: 'meta',
      scope: 'global',
      session: 'default',
      callSeq: 1,
      resultSeq: 2,
      startedAt: expect.any(Number),
      durationMs: expect.any(Number),
      isError: false,
      value: 'x',
      content: [{ type: 'text', text: 'x' }],
      meta: { projected: 'x' }
    })
    const scope = app.app.tools.child('narrow')
    scope.restrict({ deny: ['echo'] })
    const unknown = await app.invoke({ name: 'nope' })
    const hidden = await app.invoke({ name: 'echo', scope: 'narrow' })
    expect(unknown.error).toMatchObject({ info: { code: 'UNKNOWN_TOOL' }, effect: 'none', retryable: false })
    expect(hidden.error?.message).toBe(unknown.error?.message.replace('nope', 'echo'))
    expect(hidden.session).toBe('narrow:default')
    expect(await resultCodes(app)).toEqual([undefined, 'UNKNOWN_TOOL'])
  })

  it('effect and retryable say what is known (docs/errors.md)', async () => {
    const app = await startApp()
    app.app.tools.addHook('preExecute', (exec, next) => (exec.callId === 'denied' ? deny('no') : next()))
    const outcome = async (body: Record<string, unknown>): Promise<unknown> => {
      const { error } = await app.invoke(body)
      return [error?.info?.code, error?.effect, error?.retryable]
    }
    expect(await outcome({ name: 'need' })).toEqual(['INVALID_ARGS', 'none', false])
    expect(await outcome({ name: 'nope' })).toEqual(['UNKNOWN_TOOL', 'none', false])
    expect(await outcome({ name: 'echo', callId: 'denied' })).toEqual([undefined, 'none', false])
    expect(await outcome({ name: 'boom' })).toEqual([undefined, 'unknown', false])
    app.boom = () => new Map()
    expect(await outcome({ name: 'boom' })).toEqual(['INVALID_TOOL_OUTPUT', 'completed', false])
  })

  it('F37 an integer that a double does not hold fails the call, naming its path; raw arguments too', async () => {
    const app = await startApp()
    const send = async (body: string): Promise<any> => {
      const response = await fetch(`http://127.0.0.1:${app.served.port}/invoke`, {
        method: 'POST',
        headers: { authorization: `Bearer ${app.served.admin}`, 'content-type': 'application/json' },
        body
      })
      return response.json()
    }
    const direct = await send('{"name":"echo","arguments":{"id":2512292042121000001}}')
    const raw = await app.invoke({ name: 'echo', rawArguments: '{"id":2512292042121000001}' })
    for (const { error } of [direct, raw]) {
      expect(error.info.code).toBe('INVALID_ARGS')
      expect(error.message).toContain('id')
    }
    const calls = (await app.events()).filter(({ type }) => type === 'tool/call')
    for (const { data } of calls) expect(data.arguments).toContain('2512292042121000001')
    app.boom = () => 9_007_199_254_740_993n
    expect((await app.invoke({ name: 'boom' })).error?.info?.code).toBe('INVALID_TOOL_OUTPUT')
    expect(app.trace.length).toBe(1)
  })

  it('a session belongs to one scope', async () => {
    const app = await startApp()
    app.app.tools.child('a')
    await app.invoke({ name: 'echo', session: 's1', scope: 'a' })
    const fromGlobal = await app.post('/invoke', { name: 'echo', session: 's1' })
    expect([fromGlobal.status, fromGlobal.body.error.code]).toEqual([404, 'UNKNOWN_SESSION'])
    const noScope = await app.post('/invoke', { name: 'echo', scope: 'constructor' })
    expect([noScope.status, noScope.body.error.code]).toEqual([404, 'UNKNOWN_SCOPE'])
    const agent = await app.served.tokenFor('agent', 'a')
    const foreign = await app.served.call('/invoke', { json: { name: 'echo', scope: 'global' }, token: agent })
    expect(foreign.status).toBe(404)
  })

  it('steps are joined, closed and opened; turns are the open one or the next', async () => {
    const app = await startApp()
    const code = async (place: Record<string, number>): Promise<unknown> =>
      (await app.post('/invoke', { name: 'echo', ...place })).body.error?.code
    expect(await code({ turn: 1, step: 2 })).toBeUndefined()
    expect(await code({ step: 2 })).toBeUndefined()
    expect(await code({ step: 4 })).toBeUndefined()
    expect(await code({ step: 3 })).toBe('STEP_CLOSED')
    expect(await code({ turn: 3 })).toBe('TURN_CLOSED')
    expect(await code({ turn: 2, step: 1 })).toBeUndefined()
    expect(await code({ turn: 1 })).toBe('TURN_CLOSED')
    // Beyond what can be counted on from, and what can be stored.
    for (const step of [2_147_483_648, Number.MAX_SAFE_INTEGER, 1e30]) expect(await code({ step })).toBe('BAD_REQUEST')
    expect(await code({ step: 1_000_000_000 })).toBeUndefined()
    expect(await code({})).toBeUndefined()
    expect((await app.log()).filter((line) => /^(turn|step)/.test(line))).toEqual([
      'turn/start 1',
      'step/start 1/2',
      'step/end 1/2',
      'step/start 1/4',
      'step/end 1/4',
      'turn/end 1 completed',
      'turn/start 2',
      'step/start 2/1',
      'step/end 2/1',
      'step/start 2/1000000000'
    ])
  })

  describe('idempotency', () => {
    it('50 identical requests at once: one body, one pair in the log, fifty equal answers', async () => {
      const app = await startApp()
      const calls = Array.from({ length: 50 }, () => app.post('/invoke', { name: 'count', ...{ callId: 'once' } }))
      const answers = await Promise.all(calls)
      expect(app.counted).toBe(1)
      expect(new Set(answers.map(({ body }) => JSON.stringify({ ...body, replayed: 1 }))).size).toBe(1)
      expect(await app.log()).toEqual(['turn/start 1', 'tool/call once', 'tool/result once'])
    })

    it('attaches while it runs, replays after its end, and conflicts with another call', async () => {
      const app = await startApp()
      const body = { name: 'count', callId: 'c1', arguments: { id: 'c1' } }
      const first = app.post('/invoke', body)
      await app.entered('c1')
      const second = app.post('/invoke', { ...body, rawArguments: ' {"id": "c1"}', arguments: undefined })
      const other = await app.post('/invoke', { ...body, arguments: {} })
      expect([other.status, other.body.error.code]).toEqual([409, 'CALL_CONFLICT'])
      app.release('c1')
      expect((await second).body).toEqual((await first).body)
      expect((await app.invoke(body)) as unknown).toEqual({ ...(await first).body, replayed: true })
      expect((await app.post('/invoke', { ...body, name: 'echo' })).status).toBe(409)
      expect((await app.post('/invoke', { ...body, session: 'another' })).body.replayed).toBeUndefined()
      expect(app.counted).toBe(2)
    })

    it('replays failures and contexts whole', async () => {
      const app = await startApp()
      app.boom = (exec) => {
        exec.deferContext(contextFrom('kept'))
        throw new TypeError('broke')
      }
      const first = await app.invoke({ name: 'boom', callId: 'f' })
      expect(first.error).toMatchObject({ message: 'broke', effect: 'unknown' })
      expect(await app.invoke({ name: 'boom', callId: 'f' })).toEqual({ ...first, replayed: true })
    })

    it('an Idempotency-Key is the callId of a caller that sends none', async () => {
      const app = await startApp()
      const headers = { 'idempotency-key': 'key-1' }
      expect((await app.post('/invoke', { name: 'count' }, headers)).body.callId).toBe('key-1')
      expect((await app.post('/invoke', { name: 'count' }, headers)).body.replayed).toBe(true)
      expect((await app.post('/invoke', { name: 'count', callId: 'own' }, headers)).body.callId).toBe('own')
      const long = await app.post('/invoke', { name: 'count' }, { 'idempotency-key': 'k'.repeat(257) })
      expect(long.status).toBe(400)
      expect(app.counted).toBe(2)
    })

    it('two lines of Idempotency-Key are no key, be they alike or not, with a callId or without', async () => {
      const app = await startApp()
      const { port } = app.served
      const token = await app.served.tokenFor('admin')
      const post = (body: object, ...keys: string[]): Promise<string> => {
        const text = JSON.stringify(body)
        const lines = ['POST /invoke HTTP/1.1', `Host: 127.0.0.1:${port}`, `Authorization: Bearer ${token}`]
        lines.push('Content-Type: application/json', `Content-Length: ${text.length}`, 'Connection: close')
        return sendRaw(port, [...lines, ...keys.map((key) => `Idempotency-Key: ${key}`), '', text].join('\r\n'))
      }
      for (const second of ['a', 'b']) {
        for (const body of [{ name: 'count' }, { name: 'count', callId: 'own' }]) {
          const answer = await post(body, 'a', second)
          expect([statusOf(answer), /"code":"(\w+)"/.exec(answer)?.[1]]).toEqual([400, 'BAD_REQUEST'])
        }
      }
      expect(app.counted).toBe(0)
      expect(await post({ name: 'count' }, 'a, b')).toContain('"callId":"a, b"')
    })

    it('a request that is refused uses up no callId', async () => {
      const app = await startApp()
      await app.invoke({ name: 'echo', step: 2 })
      expect((await app.post('/invoke', { name: 'count', callId: 'c', step: 1 })).status).toBe(409)
      expect((await app.report('c')).status).toBe(404)
      expect((await app.invoke({ name: 'count', callId: 'c', arguments: {} })).value).toBe('1')
    })
  })

  describe('a caller that leaves (F9)', () => {
    it('without a callId the call is aborted, with one it goes on', async () => {
      const app = await startApp()
      await postAndLeave(app, { name: 'coop' }, () => app.trace.length === 1)
      await until(async () => (await resultCodes(app)).length === 1)
      expect(await resultCodes(app)).toEqual(['ABORTED'])
      await postAndLeave(app, gate('c1'), () => app.trace.includes('body:c1'))
      expect((await app.report('c1')).body.state).toBe('running')
      app.release('c1')
      expect((await app.report('c1', 'default', '?waitMs=10000')).body).toMatchObject({
        state: 'done',
        result: { value: 'done-c1' }
      })
    })

    it('onDisconnect says otherwise', async () => {
      const app = await startApp()
      await postAndLeave(app, { name: 'coop', callId: 'c1', onDisconnect: 'abort' }, () => app.trace.length === 1)
      expect((await app.report('c1', 'default', '?waitMs=10000')).body.result?.error?.info?.code).toBe('ABORTED')
      await postAndLeave(
        app,
        { ...gate('c2'), callId: undefined, onDisconnect: 'continue' },
        () => app.trace.length === 2
      )
      app.release('c2')
      await until(async () => (await resultCodes(app)).length === 2)
      expect((await resultCodes(app))[1]).toBeUndefined()
    })

    it('only the last one to leave ends the call', async () => {
      const app = await startApp()
      const body = { ...gate('c1'), onDisconnect: 'abort' }
      const stays = app.post('/invoke', body)
      await app.entered('c1')
      await postAndLeave(app, body, () => true)
      app.release('c1')
      expect((await stays).body.value).toBe('done-c1')
    })
  })

  describe('Prefer: respond-async', () => {
    it('F19: 202 with the place of a call that is stored by then', async () => {
      const app = await startApp()
      const async = { prefer: 'wait=1, respond-async' }
      const { status, headers, body } = await app.post('/invoke', gate('a b'), async)
      expect(status).toBe(202)
      expect(headers.get('location')).toBe('/calls/default/a%20b')
      expect(headers.get('preference-applied')).toBe('respond-async')
      expect(body).toMatchObject({ callId: 'a b', session: 'default' })
      expect(await app.app.eventLog.rows('calls', { session: 'default', call_id: 'a b' })).toHaveLength(1)
      await app.entered('a b')
      expect((await app.post('/invoke', gate('a b'), async)).body.state).toBe('running')
      app.release('a b')
      expect((await app.get(`${headers.get('location')}?waitMs=10000`)).body.result.value).toBe('done-a b')
      expect((await app.post('/invoke', gate('a b'), async)).body.state).toBe('done')
      expect((await app.post('/invoke', { ...gate('a b'), name: 'echo' }, async)).status).toBe(409)
    })

    it('a call whose turn to run has not come is stored too, and gets its pair when it is cancelled', async () => {
      const app = await startApp({ 'calls.maxConcurrent': '1' })
      const blocker = app.post('/invoke', { ...gate('b'), session: 'other' })
      await app.entered('b')
      const accepted = await app.post('/invoke', gate('q'), { prefer: 'respond-async' })
      expect(accepted.body.state).toBe('queued')
      expect(await app.app.eventLog.rows('calls', { call_id: 'q' })).toMatchObject([{ state: 'accepted' }])
      await app.cancel('q')
      const { body } = await app.report('q', 'default', '?waitMs=10000')
      expect(body.result?.error?.info?.code).toBe('ABORTED_BEFORE_DISPATCH')
      expect(await app.log()).toEqual(['turn/start 1', 'tool/call q', 'tool/result q'])
      app.release('b')
      await blocker
    })
  })

  it('dryRun reports and leaves no trace: no session, no event, no body, no question', async () => {
    const app = await startApp()
    app.app.tools.addHook('preExecute', (exec, next) => {
      if (exec.callId === 'deny') return deny('not allowed')
      return exec.callId === 'ask' ? ask('really?') : next()
    })
    const dry = async (body: Record<string, unknown>): Promise<unknown> =>
      (await app.post('/invoke?dryRun=true', { session: 'dry', ...body })).body
    expect(await dry({ name: 'echo' })).toEqual({ decision: 'allow' })
    expect(await dry({ name: 'need' })).toEqual({ decision: 'allow', violations: ['"path" is required'] })
    expect(await dry({ name: 'echo', callId: 'deny' })).toEqual({ decision: 'deny', reason: 'not allowed' })
    expect(await dry({ name: 'echo', callId: 'ask' })).toEqual({ decision: 'ask', reason: 'really?' })
    expect(await dry({ name: 'nope' })).toMatchObject({ error: { info: { code: 'UNKNOWN_TOOL' } } })
    expect(await dry({ name: 'echo', rawArguments: '{"ids":[9007199254740993]}' })).toMatchObject({
      decision: 'deny',
      violations: ['"ids[0]" is an integer beyond 2^53 - 1; send it as a string'],
      error: { info: { code: 'INVALID_ARGS' } }
    })
    expect(app.trace).toEqual([])
    expect((await app.get('/sessions/dry')).status).toBe(404)
    expect((await app.get('/sessions')).body.sessions).toEqual([])
    expect((await app.post('/invoke?dryRun=maybe', { name: 'echo' })).status).toBe(400)
  })

  describe('admission (reliability.md §3.1)', () => {
    it('a full line is 429 for the scope’s own limit and 503 for the server’s, naming it; a batch counts as one', async () => {
      const app = await startApp({
        'calls.maxConcurrent': '2',
        'calls.maxConcurrentPerScope': '1',
        'calls.maxQueued': '1'
      })
      app.app.tools.child('a')
      app.app.tools.child('b')
      const batch = app.batch([gate('g1'), gate('g2')])
      await app.entered('g2')
      const queued = app.post('/invoke', { ...gate('g3'), session: 's3' })
      await app.state('g3', 'queued', 's3')
      const limited = await app.post('/invoke', { name: 'echo', callId: 'x' })
      expect([limited.status, limited.body.error.code, limited.body.error.details.limit]).toEqual([
        429,
        'RATE_LIMITED',
        'calls.maxConcurrentPerScope'
      ])
      expect(limited.headers.get('retry-after')).toBe('1')
      const inA = app.post('/invoke', { ...gate('g4'), scope: 'a' })
      await app.entered('g4')
      const overloaded = await app.post('/invoke', { name: 'echo', scope: 'b' })
      expect([overloaded.status, overloaded.body.error.code, overloaded.body.error.details.limit]).toEqual([
        503,
        'OVERLOADED',
        'calls.maxConcurrent'
      ])
      expect(overloaded.headers.get('retry-after')).toBe('1')
      app.release('g1', 'g2', 'g3', 'g4')
      for (const { status } of await Promise.all([batch, queued, inA])) expect(status).toBe(200)
      expect((await app.invoke({ name: 'echo', callId: 'x' })).replayed).toBeUndefined()
    })

    it('a call that waits too long for its turn is refused, and logs nothing', async () => {
      const app = await startApp({ 'calls.maxConcurrent': '1', 'calls.queueTimeoutMs': '50' })
      const blocker = app.post('/invoke', gate('b'))
      await app.entered('b')
      const late = await app.post('/invoke', { name: 'echo', session: 'late' })
      expect([late.status, late.body.error.code]).toEqual([503, 'OVERLOADED'])
      expect((await app.get('/sessions/late')).status).toBe(404)
      app.release('b')
      await blocker
    })
  })

  it('the calls of a disposed scope are aborted, and the disposal waits for their results', async () => {
    const app = await startApp()
    const scope = app.app.tools.child('a')
    const call = app.post('/invoke', { name: 'coop', scope: 'a', callId: 'c1' })
    await until(() => app.trace.length === 1)
    await scope.dispose()
    const stored = await app.app.eventLog.rows('calls', { session: 'a:default' })
    expect(stored).toMatchObject([{ call_id: 'c1', state: 'done' }])
    expect((await call).body.error.info.code).toBe('ABORTED')
    expect((await app.post('/invoke', { name: 'echo', scope: 'a' })).status).toBe(404)
    app.app.tools.child('a')
    expect((await app.invoke({ name: 'coop', scope: 'a', callId: 'c1' })).replayed).toBe(true)
  })

  it('many calls on one connection leave no listener behind', async () => {
    const app = await startApp()
    const warnings: Error[] = []
    const warn = (warning: Error): void => void warnings.push(warning)
    process.on('warning', warn)
    for (let n = 0; n < 60; n += 1) await app.invoke({ name: 'echo' })
    process.off('warning', warn)
    expect(warnings).toEqual([])
  })
})
