import { describe, expect, it } from 'vitest'
import { contextFrom, startApp, type TestApp } from '../helpers/app.ts'
import { until } from '../helpers/until.ts'

const turn = (app: TestApp, body?: unknown, session = 'default') => app.post(`/sessions/${session}/turns`, body)
const end = (app: TestApp, number: number, body: unknown = {}) =>
  app.post(`/sessions/default/turns/${number}/end`, body)

describe('turns over the wire (api.md §2)', () => {
  it('opens the next turn with what the user said, and ends it for a reason', async () => {
    const app = await startApp()
    await app.invoke({ name: 'echo', callId: 'c1' })
    expect(await turn(app, { message: { id: 'm1', content: 'hello' } })).toMatchObject({
      status: 201,
      body: { session: 'default', turn: 2 }
    })
    const said = (await app.events()).find(({ type }) => type === 'user/message')
    expect(said?.data).toEqual({
      id: 'm1',
      role: 'user',
      content: [{ type: 'text', text: 'hello' }],
      source: { kind: 'user' }
    })
    expect(await end(app, 2, { reason: 'max-tokens' })).toMatchObject({
      status: 200,
      body: { session: 'default', turn: 2, reason: 'max-tokens' }
    })
    const again = await end(app, 2)
    expect([again.status, again.body.error.code]).toEqual([409, 'TURN_CLOSED'])
    expect((await turn(app, { message: { content: [{ type: 'text', text: 'blocks' }] } })).body.turn).toBe(3)
    expect((await end(app, 3)).body.reason).toBe('completed')
    expect((await app.log()).filter((line) => line.startsWith('turn'))).toEqual([
      'turn/start 1',
      'turn/end 1 completed',
      'turn/start 2',
      'turn/end 2 max-tokens',
      'turn/start 3',
      'turn/end 3 completed'
    ])
    expect((await app.get('/sessions/default')).body).toMatchObject({ turn: 3, isTurnOpen: false })
  })

  it('takes a message as the log has it', async () => {
    const app = await startApp()
    const last = async () => (await app.events()).findLast(({ type }) => type === 'user/message')?.data
    await turn(app, { message: { content: 'hello' } })
    const whole = await last()
    expect((await turn(app, { message: { ...whole, id: 'again' } })).status).toBe(201)
    expect(await last()).toEqual({ ...whole, id: 'again' })
  })

  it('needs no body, and makes the session it opens a turn of', async () => {
    const app = await startApp()
    app.app.tools.child('a')
    expect((await turn(app, { scope: 'a' }, 'fresh')).status).toBe(201)
    expect((await app.get('/sessions/fresh')).body.scope).toBe('a')
    const elsewhere = await turn(app, { scope: 'global' }, 'fresh')
    expect([elsewhere.status, elsewhere.body.error.code]).toEqual([404, 'UNKNOWN_SESSION'])
    const bare = await app.served.call('/sessions/bare/turns', { method: 'POST' })
    expect([bare.status, await bare.json()]).toEqual([201, { session: 'bare', turn: 1 }])
    const ended = await app.served.call('/sessions/bare/turns/1/end', { method: 'POST' })
    expect(ended.status).toBe(200)
    const agent = await app.served.tokenFor('agent', 'a')
    const foreign = await app.served.call('/sessions/bare/turns', { method: 'POST', token: agent })
    expect(foreign.status).toBe(404)
    for (const body of [
      { message: {} },
      { message: { content: '', source: {} } },
      { message: { content: '', source: { kind: 'plugin' } } },
      { message: { content: '', role: 'assistant' } },
      { message: { content: [] } },
      []
    ]) {
      expect((await turn(app, body)).status).toBe(400)
    }
    expect((await end(app, 1, { reason: 'interrupted' })).status).toBe(400)
  })

  it('is 409 TURN_BUSY while calls run, except for an end with aborted, which ends them', async () => {
    const app = await startApp({}, { isDurable: true })
    const call = app.post('/invoke', { name: 'coop', callId: 'c1' })
    await until(() => app.trace.length === 1)
    for (const answer of [await turn(app), await end(app, 1), await end(app, 1, { reason: 'error' })]) {
      expect([answer.status, answer.body.error.code]).toEqual([409, 'TURN_BUSY'])
    }
    const ends = await Promise.all([
      end(app, 1, { reason: 'aborted', cause: 'first' }),
      end(app, 1, { reason: 'aborted', cause: 'second' })
    ])
    expect(ends.map(({ status }) => status)).toEqual([200, 200])
    expect((await call).body.error.info.code).toBe('ABORTED')
    const reasons = (await app.events()).filter(({ type }) => type === 'turn/end').map(({ data }) => data.reason)
    expect(reasons).toEqual([{ kind: 'aborted', cause: 'first' }])
    await app.invoke({ name: 'echo', turn: 2 })
  })

  it('an abort drops what was queued before it', async () => {
    const app = await startApp()
    const running = app.post('/invoke', { name: 'coop', callId: 'c1' })
    await until(() => app.trace.includes('body:c1'))
    app.boom = (exec) => (exec.deferContext(contextFrom('before')), 1)
    await app.invoke({ name: 'boom' })
    await end(app, 1, { reason: 'aborted' })
    await running
    await app.invoke({ name: 'echo' })
    expect((await app.log()).filter((line) => line.startsWith('user/message'))).toEqual([])
  })

  it('a turn that is concluded but for a running call ends as aborted when it is aborted', async () => {
    const app = await startApp()
    const running = app.post('/invoke', { name: 'coop', callId: 'c1' })
    await until(() => app.trace.includes('body:c1'))
    app.boom = (exec) => (exec.concludeTurn(), 1)
    expect((await app.invoke({ name: 'boom' })).concludesTurn).toBe(true)
    expect((await end(app, 1, { reason: 'aborted' })).status).toBe(200)
    await running
    expect((await app.log()).filter((line) => line.startsWith('turn/end'))).toEqual(['turn/end 1 aborted'])
  })

  it('C117 a user message resets the count of repeats; a turn without one does not', async () => {
    const app = await startApp()
    const repeat = async (): Promise<number> => (await app.invoke({ name: 'echo' })).additionalContexts?.length ?? 0
    expect([await repeat(), await repeat()]).toEqual([0, 0])
    await turn(app, { message: { content: 'try again' } })
    expect([await repeat(), await repeat(), await repeat()]).toEqual([0, 0, 1])
    await turn(app)
    expect([await repeat(), await repeat()]).toEqual([0, 1])
  })

  it('C116 nine identical calls are remarked on at 3, 5 and 8', async () => {
    const app = await startApp()
    const remarks: string[] = []
    for (let n = 1; n <= 9; n += 1) {
      const { additionalContexts = [], content } = await app.invoke({ name: 'echo', arguments: { text: 'same' } })
      expect(content).toEqual([{ type: 'text', text: 'same' }])
      for (const { source } of additionalContexts)
        remarks.push(`${n}: ${String((source as { summary?: unknown }).summary)}`)
    }
    expect(remarks).toEqual(['3: echo × 3', '5: echo × 5', '8: echo × 8'])
  })
})
