import { describe, expect, it } from 'vitest'
import { startApp } from '../helpers/app.ts'
import { until } from '../helpers/until.ts'

const gate = (callId: string) => ({ name: 'gate', callId, arguments: { id: callId } })

describe('calls that can be asked for (api.md §2)', () => {
  it('F9 F21 tells the state, and waits for the end no longer than told; a wait that ends says the truth', async () => {
    const app = await startApp()
    const call = app.post('/invoke', gate('c1'))
    await app.entered('c1')
    expect((await app.report('c1')).body).toEqual({ callId: 'c1', session: 'default', state: 'running' })
    expect((await app.report('c1', 'default', '?waitMs=20')).body).toEqual({
      callId: 'c1',
      session: 'default',
      state: 'running'
    })
    const waits = Array.from({ length: 5 }, () => app.report('c1', 'default', '?waitMs=60000'))
    app.release('c1')
    const answer = (await call).body
    for (const { body } of await Promise.all(waits)) expect(body).toMatchObject({ state: 'done', result: answer })
    expect((await app.report('c1', 'default', '?waitMs=60000')).body.result).toEqual(answer)
  })

  it('cancels, as often as one likes, and what has ended stays as it is', async () => {
    const app = await startApp()
    const call = app.post('/invoke', { name: 'coop', callId: 'c1' })
    await until(() => app.trace.length === 1)
    expect((await app.cancel('c1')).status).toBe(200)
    expect((await call).body.error).toMatchObject({ info: { code: 'ABORTED' }, effect: 'unknown' })
    const done = await app.cancel('c1')
    expect(done.body).toMatchObject({ state: 'done', result: { isError: true } })
    expect((await app.cancel('c1')).body).toEqual(done.body)
  })

  it('a body that does not listen keeps its call running', async () => {
    const app = await startApp()
    const call = app.post('/invoke', gate('c1'))
    await app.entered('c1')
    expect((await app.cancel('c1')).body.state).toBe('running')
    expect((await app.report('c1')).body.state).toBe('running')
    app.release('c1')
    expect((await call).body.error.info.code).toBe('ABORTED')
  })

  it('what is not there is 404, and nonsense 400', async () => {
    const app = await startApp()
    await app.invoke({ name: 'echo', callId: 'known' })
    expect((await app.report('unknown')).body).toMatchObject({ error: { code: 'UNKNOWN_CALL' } })
    expect((await app.cancel('unknown')).status).toBe(404)
    expect((await app.report('known', 'elsewhere')).body).toMatchObject({ error: { code: 'UNKNOWN_SESSION' } })
    for (const query of ['?waitMs=-1', '?waitMs=60001', '?waitMs=soon', '?wait=1']) {
      expect((await app.report('known', 'default', query)).status).toBe(400)
    }
    app.app.tools.child('a')
    const agent = await app.served.tokenFor('agent', 'a')
    expect((await app.served.call('/calls/default/known', { token: agent })).status).toBe(404)
    const observer = await app.served.tokenFor('observer')
    const refused = await app.served.call('/calls/default/known/cancel', { method: 'POST', token: observer })
    expect(refused.status).toBe(403)
  })

  it('a shutdown ends the waiting of a long poll, and aborts what is still queued', async () => {
    const app = await startApp({ 'calls.maxConcurrent': '1', 'drain.drainMs': '5000' })
    const running = app.post('/invoke', gate('c1'))
    await app.entered('c1')
    const queued = app.post('/invoke', { ...gate('c2'), session: 's2' })
    await app.state('c2', 'queued', 's2')
    const poll = app.report('c1', 'default', '?waitMs=60000')
    // Only then has the server heard of the poll.
    await app.report('c1')
    const closed = app.app.close()
    expect((await queued).body.error.info.code).toBe('ABORTED_BEFORE_DISPATCH')
    expect((await poll).body.state).toBe('running')
    app.release('c1')
    expect((await running).body.value).toBe('done-c1')
    await closed
  })
})
