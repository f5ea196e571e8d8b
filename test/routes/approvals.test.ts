import { describe, expect, it } from 'vitest'
import { type Answer, startApp, type TestApp } from '../helpers/app.ts'
import { EventClient } from '../helpers/served-app.ts'
import { until } from '../helpers/until.ts'

/** A server where the calls of these tools are asked about. */
async function asking(tools: readonly string[], settings: Record<string, string> = {}): Promise<TestApp> {
  const app = await startApp(settings)
  app.app.tools.addHook('preExecute', async (exec, next) =>
    tools.includes(exec.name) ? { kind: 'ask', reason: 'why not' } : next()
  )
  return app
}

const listed = async (app: TestApp, query = ''): Promise<any[]> => (await app.get(`/approvals${query}`)).body.approvals

/** The approvals once there are so many. */
async function pending(app: TestApp, count = 1): Promise<any[]> {
  await until(async () => (await listed(app)).length === count)
  return listed(app)
}

const decide = (app: TestApp, id: string, verdict: unknown): Promise<Answer> => app.post(`/approvals/${id}`, verdict)

const brief = ({ status, body }: Answer): string => `${status} ${body.error?.code ?? body.outcome}`

/** A decision as another principal sends it. */
async function as(app: TestApp, token: string, path: string, json?: unknown): Promise<Answer> {
  const response = await app.served.call(path, { token, ...(json === undefined ? {} : { json }) })
  return { status: response.status, headers: response.headers, body: await response.json() }
}

describe('GET /approvals and POST /approvals/{id} (api.md §7)', () => {
  it('shows what would run, and runs it when it is allowed', async () => {
    const app = await asking(['echo'])
    const answer = app.invoke({ name: 'echo', arguments: { text: 'hi' }, callId: 'c1' })
    const [approval] = await pending(app)
    expect(approval).toEqual({
      id: expect.any(String),
      kind: 'tool',
      session: 'default',
      scope: 'global',
      callId: 'c1',
      toolName: 'echo',
      reason: 'why not',
      arguments: { text: 'hi' },
      hash: expect.stringMatching(/^[0-9a-f]{64}$/),
      createdAt: expect.any(Number),
      expiresAt: approval.createdAt + 24 * 3_600_000,
      state: 'pending'
    })
    expect((await app.report('c1')).body.state).toBe('awaiting-approval')
    expect(app.trace).toEqual([])
    const { body, status } = await decide(app, approval.id, { decision: 'allow', reason: 'ok', hash: approval.hash })
    expect([status, body]).toEqual([
      200,
      {
        ...approval,
        state: 'decided',
        outcome: 'allowed-once',
        decidedAt: expect.any(Number),
        decidedBy: expect.any(String),
        decidedReason: 'ok'
      }
    ])
    expect((await answer).value).toBe('hi')
    expect(await listed(app)).toEqual([])
    const [asked, decided] = (await app.events()).filter(({ type }) => type.startsWith('approval/'))
    expect(asked?.data).toEqual({ id: approval.id, toolName: 'echo', callId: 'c1', reason: 'why not' })
    expect(decided?.data).toEqual({ id: approval.id, outcome: 'allowed-once', by: body.decidedBy })
    expect(await app.log()).toHaveLength(5)
  })

  it('a denial is the call’s failure, and says nothing ran', async () => {
    const app = await asking(['echo'])
    const answer = app.invoke({ name: 'echo' })
    const [{ id }] = await pending(app)
    expect(brief(await decide(app, id, { decision: 'deny' }))).toBe('200 rejected')
    expect(await answer).toMatchObject({ isError: true, error: { effect: 'none', retryable: false } })
    const again = await decide(app, id, { decision: 'allow' })
    expect(brief(again)).toBe('409 ALREADY_DECIDED')
    expect(again.body.error.details).toMatchObject({ outcome: 'rejected', by: expect.any(String) })
    expect(app.trace).toEqual([])
  })

  it('refuses what is no verdict, and an approval that there is not', async () => {
    const app = await asking(['echo'])
    const answer = app.invoke({ name: 'echo' })
    const [{ id }] = await pending(app)
    for (const body of [
      {},
      { decision: 'maybe' },
      { decision: 'allow', approved: true },
      { decision: 'allow', hash: 1 }
    ])
      expect(brief(await decide(app, id, body))).toBe('400 BAD_REQUEST')
    expect(brief(await decide(app, 'nope', { decision: 'allow' }))).toBe('404 UNKNOWN_APPROVAL')
    expect((await app.post('/invoke', { name: 'echo', approved: true })).status).toBe(400)
    await decide(app, id, { decision: 'deny' })
    await answer
  })

  it('pages, also when the approval that a cursor names is decided by then', async () => {
    const app = await asking(['echo'])
    const answers = Array.from({ length: 5 }, (_, index) => app.invoke({ name: 'echo', callId: `c${index}` }))
    const all = await pending(app, 5)
    const first = (await app.get('/approvals?limit=2&state=pending')).body
    expect(first.approvals).toEqual(all.slice(0, 2))
    await decide(app, first.approvals[1].id, { decision: 'deny' })
    const second = (await app.get(`/approvals?limit=2&after=${first.next}`)).body
    expect(second.approvals).toEqual(all.slice(2, 4))
    const last = (await app.get(`/approvals?limit=2&after=${second.next}`)).body
    expect(last).toEqual({ approvals: all.slice(4) })
    for (const query of ['limit=0', 'after=x', 'state=decided', 'after=1.x'])
      expect((await app.get(`/approvals?${query}`)).status).toBe(400)
    for (const { id } of await listed(app)) await decide(app, id, { decision: 'deny' })
    await Promise.all(answers)
  })

  it('a principal of another scope sees none and decides none, as if there were none; roles that may not are 403', async () => {
    const app = await asking(['echo'])
    for (const scope of ['a', 'b'])
      expect((await app.served.call(`/scopes/${scope}`, { method: 'PUT', json: {} })).status).toBe(201)
    const answer = app.invoke({ name: 'echo', scope: 'a' })
    const [{ id }] = await pending(app)
    const other = await app.served.tokenFor('operator', 'b')
    expect((await as(app, other, '/approvals')).body.approvals).toEqual([])
    const foreign = await as(app, other, `/approvals/${id}`, { decision: 'allow' })
    const unknown = await as(app, other, '/approvals/00000000-0000-0000-0000-000000000000', { decision: 'allow' })
    expect([foreign.status, foreign.body.error]).toEqual([404, unknown.body.error])
    for (const role of ['agent', 'observer', 'provider'] as const) {
      const token = await app.served.tokenFor(role, 'a')
      expect(brief(await as(app, token, `/approvals/${id}`, { decision: 'allow' }))).toBe('403 FORBIDDEN')
    }
    const observer = await app.served.tokenFor('observer', 'a')
    expect((await as(app, observer, '/approvals')).body.approvals).toHaveLength(1)
    const agent = await app.served.tokenFor('agent', 'a')
    expect((await as(app, agent, '/approvals')).status).toBe(403)
    const operator = await app.served.tokenFor('operator', 'a')
    expect((await as(app, operator, `/approvals/${id}`, { decision: 'deny' })).body.decidedBy).toBe('operator')
    await answer
  })
})

describe('edited arguments (api.md §7)', () => {
  it('are validated first, and an approval with bad ones is pending still', async () => {
    const app = await asking(['need'])
    const answer = app.invoke({ name: 'need', arguments: { path: '/a' } })
    const [{ id }] = await pending(app)
    const bad = await decide(app, id, { decision: 'allow', arguments: { path: 1 } })
    expect(brief(bad)).toBe('400 INVALID_ARGS')
    expect(bad.body.error.details.violations).toEqual([expect.stringContaining('path')])
    for (const text of ['{"path":"/a","n":9007199254740993}', '{"path":"/a","n":-0}', '{"path":"/a","n":1e999}']) {
      const response = await fetch(`http://127.0.0.1:${app.served.port}/approvals/${id}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${app.served.admin}`, 'content-type': 'application/json' },
        body: `{"decision":"allow","arguments":${text}}`
      })
      expect([response.status, ((await response.json()) as any).error.code]).toEqual([400, 'INVALID_ARGS'])
    }
    expect(await listed(app)).toHaveLength(1)
    const { body } = await decide(app, id, { decision: 'allow', arguments: { path: '/b' } })
    expect(body.decidedArguments).toEqual({ path: '/b' })
    expect((await answer).value).toBe('/b')
    const events = await app.events()
    expect(events.find(({ type }) => type === 'approval/decided')?.data.arguments).toEqual({ path: '/b' })
    expect(events.find(({ type }) => type === 'tool/call')?.data.arguments).toBe('{"path":"/a"}')
  })

  it('go through the policies once more, whose denial stands, and are what the guards see', async () => {
    const app = await startApp()
    const seen: unknown[] = []
    app.app.tools.addHook('preExecute', (exec) => {
      seen.push(exec.arguments)
      const { text } = exec.arguments as { text: string }
      return text === 'forbidden' ? { kind: 'deny', reason: 'forbidden text' } : { kind: 'ask' }
    })
    app.app.tools.guard((exec) => void seen.push(['guard', exec.arguments]))
    const denied = app.invoke({ name: 'echo', arguments: { text: 'a' } })
    await decide(app, (await pending(app))[0].id, { decision: 'allow', arguments: { text: 'forbidden' } })
    expect((await denied).error?.message).toBe('forbidden text')
    const ran = app.invoke({ name: 'echo', arguments: { text: 'a' } })
    await decide(app, (await pending(app))[0].id, { decision: 'allow', arguments: { text: 'b' } })
    // The second ask counts as answered.
    expect((await ran).value).toBe('b')
    expect(seen).toEqual([{ text: 'a' }, { text: 'forbidden' }, { text: 'a' }, { text: 'b' }, ['guard', { text: 'b' }]])
  })

  it('a guard may still refuse what a person allowed', async () => {
    const app = await asking(['echo'])
    app.app.tools.guard(() => 'guarded')
    const answer = app.invoke({ name: 'echo' })
    await decide(app, (await pending(app))[0].id, { decision: 'allow' })
    expect((await answer).error?.message).toBe('guarded')
  })
})

describe('while a person thinks', () => {
  it('no timeout runs and no place is held', async () => {
    const app = await asking(['slow'], { 'calls.maxConcurrent': '1', 'calls.maxQueued': '0' })
    app.app.tools.register({
      name: 'slow',
      description: 'Has a deadline.',
      parameters: { type: 'object' },
      output: { schema: {}, render: () => [] },
      timeoutMs: 50,
      execute: () => 'in time'
    })
    const from = performance.now()
    const answer = app.invoke({ name: 'slow', callId: 's1' })
    const [{ id }] = await pending(app)
    // The one place there is, is free.
    expect((await app.invoke({ name: 'echo', arguments: { text: 'x' } })).value).toBe('x')
    await until(() => performance.now() - from > 150)
    await decide(app, id, { decision: 'allow' })
    expect((await answer).value).toBe('in time')
  })

  it('the call can be cancelled, and is asked for', async () => {
    const app = await asking(['echo'])
    const { status, headers } = await app.post('/invoke', { name: 'echo', callId: 'c1' }, { prefer: 'respond-async' })
    expect([status, headers.get('location')]).toEqual([202, '/calls/default/c1'])
    const [{ id }] = await pending(app)
    await app.cancel('c1')
    const { result } = (await app.report('c1', 'default', '?waitMs=10000')).body
    expect(result?.error?.info?.code).toBe('ABORTED_BEFORE_DISPATCH')
    expect(brief(await decide(app, id, { decision: 'allow' }))).toBe('409 ALREADY_DECIDED')
    expect(await listed(app)).toEqual([])
  })

  it('a dry run says "ask" and asks nobody', async () => {
    const app = await asking(['echo'])
    const client = await EventClient.open(app.served)
    await client.ask({ type: 'subscribe', id: 'a' })
    expect((await app.post('/invoke?dryRun=true', { name: 'echo' })).body).toEqual({
      decision: 'ask',
      reason: 'why not'
    })
    expect([await listed(app), client.events('a')]).toEqual([[], []])
    expect((await app.get('/sessions')).body.sessions).toEqual([])
  })

  it('F65 those who listen are told, and who reconnects finds it in the list', async () => {
    const app = await asking(['count'])
    const client = await EventClient.open(app.served)
    await client.ask({ type: 'subscribe', id: 'a' })
    const answer = app.invoke({ name: 'count', callId: 'c1' })
    const frame = await client.next(({ event }) => event?.type === 'approval/pending')
    expect(frame.event).toMatchObject({
      session: 'default',
      data: { callId: 'c1', toolName: 'count', reason: 'why not' }
    })
    expect(frame.event).not.toHaveProperty('seq')
    client.socket.terminate()
    const [{ id }] = await pending(app)
    const all = await Promise.all(Array.from({ length: 10 }, () => decide(app, id, { decision: 'allow' })))
    expect(all.map(brief).sort()).toEqual([
      '200 allowed-once',
      ...Array.from({ length: 9 }, () => '409 ALREADY_DECIDED')
    ])
    expect((await answer).value).toBe('1')
    expect(app.counted).toBe(1)
  })
})

describe('F67 several asks with the same arguments', () => {
  const verdicts = ['allow', 'deny', 'allow'] as const

  it.each(['HTTP', 'the socket'])(
    'decided in reverse over %s: each decision reaches its call, and siblings run once',
    async (way) => {
      const app = await asking(['count'])
      const client = await EventClient.open(app.served)
      const ids = ['c1', 'c2', 'c3']
      const answers = ids.map((callId) => app.invoke({ name: 'count', callId, arguments: {} }))
      const all = await pending(app, 3)
      expect(new Set(all.map(({ id }) => id)).size).toBe(3)
      for (const index of [2, 1, 0]) {
        const { id } = all.find(({ callId }) => callId === ids[index])
        const verdict = { decision: verdicts[index] }
        if (way === 'HTTP') expect((await decide(app, id, verdict)).status).toBe(200)
        else {
          const frame = await client.ask({ type: 'approval', id: `f${index}`, approvalId: id, ...verdict })
          expect(frame).toMatchObject({
            type: 'approval/decided',
            id: `f${index}`,
            approval: { id, callId: ids[index] }
          })
        }
      }
      expect((await Promise.all(answers)).map(({ isError }) => isError)).toEqual([false, true, false])
      expect(app.counted).toBe(2)
    }
  )

  it('in a batch they are asked one after the other, in model order (core.md §22.4)', async () => {
    const app = await asking(['count'])
    const answer = app.batch(['c1', 'c2', 'c3'].map((callId) => ({ callId, name: 'count', arguments: {} })))
    const seen: string[] = []
    for (const decision of verdicts) {
      const [{ id, callId }] = await pending(app)
      seen.push(callId)
      await decide(app, id, { decision })
    }
    const { results } = (await answer).body
    expect(seen).toEqual(['c1', 'c2', 'c3'])
    expect(results.map(({ isError }: any) => isError)).toEqual([false, true, false])
    expect(app.counted).toBe(2)
  })
})

describe('the `approval` frame (api.md §5)', () => {
  it('answers as the route does, with the id of the frame', async () => {
    const app = await asking(['need'])
    const client = await EventClient.open(app.served)
    const answer = app.invoke({ name: 'need', arguments: { path: '/a' } })
    const [{ id }] = await pending(app)
    const refused = async (frame: object): Promise<unknown> =>
      (await client.ask({ type: 'approval', id: 'x', ...frame }))['code']
    expect(await refused({ approvalId: 'nope', decision: 'allow' })).toBe('UNKNOWN_APPROVAL')
    expect(await refused({ approvalId: id, decision: 'perhaps' })).toBe('BAD_FRAME')
    expect(await refused({ approvalId: id, decision: 'allow', hash: 'other' })).toBe('APPROVAL_STALE')
    expect(await refused({ approvalId: id, decision: 'allow', arguments: {} })).toBe('INVALID_ARGS')
    const unsafe = await client.ask(
      `{"type":"approval","approvalId":"${id}","decision":"allow","arguments":{"path":"/a","n":9007199254740993}}`
    )
    expect(unsafe['code']).toBe('INVALID_ARGS')
    const observer = await EventClient.open(app.served, await app.served.tokenFor('observer'))
    expect(await observer.ask({ type: 'approval', approvalId: id, decision: 'allow' })).toMatchObject({
      code: 'FORBIDDEN'
    })
    expect(
      await client.ask({ type: 'approval', id: 'y', approvalId: id, decision: 'allow', arguments: { path: '/b' } })
    ).toMatchObject({
      type: 'approval/decided',
      id: 'y',
      approval: { id, outcome: 'allowed-once' }
    })
    expect((await answer).value).toBe('/b')
  })
})

describe('shutdown (reliability.md §3.4)', () => {
  it('the caller gets 503 and where to ask, the approval stays, and what ran beside it in its batch has its result', async () => {
    const app = await asking(['count'], { 'drain.drainMs': '5000' })
    const call = app.post('/invoke', { name: 'count', callId: 'alone' })
    await pending(app)
    const batch = app.post('/invoke/batch', {
      session: 'two',
      calls: [
        { callId: 'b1', name: 'echo', arguments: { text: 'done' } },
        { callId: 'b2', name: 'count' },
        { callId: 'b3', name: 'echo' }
      ]
    })
    await pending(app, 2)
    const log = app.app.eventLog
    await app.app.shutdown
      .drain({ preStopMs: 0, drainMs: 5_000, killMs: 5_000 })
      .then((failures) => expect(failures).toEqual([]))
    const { status, headers, body } = await call
    expect([status, body.error.code, headers.get('location')]).toEqual([503, 'SHUTTING_DOWN', '/calls/default/alone'])
    expect(headers.get('retry-after')).not.toBeNull()
    const other = await batch
    expect([other.status, other.headers.get('location')]).toEqual([503, '/calls/two/b2'])
    const { events } = await log.read({ session: 'two', after: -1, limit: 100 })
    expect(
      events.filter(({ type }) => type === 'tool/result').map(({ data }: any) => data.message.source.callId)
    ).toEqual(['b1', 'b3'])
    expect(events.at(-1)?.type).not.toMatch(/end$/)
    const [approval] = await listed(app)
    expect(brief(await decide(app, approval.id, { decision: 'allow' }))).toBe('503 SHUTTING_DOWN')
    expect((await log.rows('approvals', { state: 'pending' })).length).toBe(2)
    expect((await log.rows('calls', { state: 'awaiting-approval' })).map((row) => row['call_id'])).toEqual([
      'alone',
      'b2'
    ])
    expect(app.counted).toBe(0)
  })
})
