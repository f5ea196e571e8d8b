import { describe, expect, it } from 'vitest'
import { invokeBatch } from '../../server/invocations/invoke-batch.ts'
import { endTurn } from '../../server/invocations/turn-control.ts'
import { contextFrom } from '../helpers/app.ts'
import { CallFixture } from '../helpers/call-fixture.ts'
import { until } from '../helpers/until.ts'

it('a turn that is being aborted ends once, also when somebody ends it just as its last call has ended (core.md §24.3)', async () => {
  const fixture = new CallFixture()
  const session = await fixture.open()
  let isRunning = false
  fixture.body = async ({ signal }) => {
    isRunning = true
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
    return 'stopped'
  }
  let other: Promise<unknown> | undefined
  const append = fixture.log.append.bind(fixture.log)
  fixture.log.append = (request) => {
    // The step is left by now, and its caller not yet told.
    if (request.events?.some(({ type }) => type === 'tool/result') === true) {
      other = endTurn(fixture.engine, session, { turn: 1, kind: 'completed' }).catch((error: unknown) => error)
    }
    return append(request)
  }
  const call = fixture.invoke('c1')
  await until(() => isRunning)
  await endTurn(fixture.engine, session, { turn: 1, kind: 'aborted', cause: 'the user' })
  expect(await other).toMatchObject({ code: 'TURN_BUSY' })
  expect(await call).toMatchObject({ error: { info: { code: 'ABORTED' } } })
  expect(await fixture.events()).toEqual(['turn/start 1', 'tool/call c1', 'tool/result c1', 'turn/end 1 aborted'])
})

describe('calls that wait for their turn when it is aborted (api.md §8, core.md §22.5)', () => {
  const skipped = {
    isError: true,
    error: { info: { code: 'ABORTED_BEFORE_DISPATCH' }, effect: 'none', retryable: true },
    content: [{ type: 'text', text: expect.any(String) }]
  }

  /** A server with one place, which a call of session s1 has: its body ends when it is aborted, and leaves a context. */
  async function busyFixture() {
    const fixture = new CallFixture(undefined, { maxConcurrent: 1 })
    const session = await fixture.open()
    let bodies = 0
    fixture.body = async ({ signal, deferContext }) => {
      bodies += 1
      if (bodies > 1) return 'later'
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      deferContext(contextFrom('drained'))
      return 'stopped'
    }
    const running = fixture.invoke('c1')
    await until(() => bodies === 1)
    const abort = () => endTurn(fixture.engine, session, { turn: 1, kind: 'aborted' })
    return { fixture, session, running, abort, bodies: () => bodies }
  }

  it('get their pair inside the turn: plain ones, in named steps, and in batches; nothing of them runs', async () => {
    const { fixture, session, running, abort, bodies } = await busyFixture()
    const plain = fixture.invoke('c2')
    const named = fixture.invoke('c3', 's1', { step: 7 })
    const calls = ['c4', 'c5'].map((callId) => ({ callId, name: 'body' }))
    const batch = invokeBatch(fixture.invocations, { session, calls })
    await until(() => fixture.calls.size === 5)
    await abort()
    expect(await plain).toMatchObject(skipped)
    expect(await named).toMatchObject(skipped)
    expect((await batch).results).toMatchObject([skipped, skipped])
    expect(await running).toMatchObject({ error: { info: { code: 'ABORTED' } } })
    expect(bodies()).toBe(1)
    const events = await fixture.events()
    for (const id of ['c2', 'c3', 'c4', 'c5']) {
      expect(events[events.indexOf(`tool/call ${id}`) + 1]).toBe(`tool/result ${id}`)
    }
    expect(events.filter((event) => event.startsWith('turn/'))).toEqual(['turn/start 1', 'turn/end 1 aborted'])
    expect(events.at(-1)).toBe('turn/end 1 aborted')
    expect(events.filter((event) => event.startsWith('step/start'))).toHaveLength(2)
    expect(events.filter((event) => event.startsWith('step/end'))).toHaveLength(2)
    expect(await fixture.invocations.report(session, 'c2')).toMatchObject({ state: 'done', result: skipped })
    expect(fixture.stale).toEqual([])
  })

  it('take no context into the aborted turn: what came while it drained begins the next one (core.md §24.3)', async () => {
    const { fixture, session, running, abort } = await busyFixture()
    const queued = fixture.invoke('c2')
    await until(() => fixture.calls.size === 2)
    session.queueContext(contextFrom('dropped'))
    const ended = abort()
    session.queueContext(contextFrom('kept'))
    await ended
    expect((await queued).additionalContexts).toBeUndefined()
    await running
    await fixture.invoke('c6')
    const events = await fixture.events()
    const messages = events.filter((event) => event.startsWith('user/message'))
    expect(messages).toEqual(['user/message ctx-kept', 'user/message ctx-drained'])
    expect(events.indexOf('user/message ctx-kept')).toBeGreaterThan(events.indexOf('turn/start 2'))
  })

  it('a call that comes while the turn is being aborted, and one that names the next turn, are 409 TURN_BUSY', async () => {
    const { fixture, session, running, abort } = await busyFixture()
    const next = fixture.invocations.invoke({ session, callId: 'c2', name: 'body', turn: 2 })
    await until(() => fixture.calls.size === 2)
    const ended = abort()
    const late = fixture.invoke('c3')
    for (const refused of [next, late]) await expect(refused).rejects.toMatchObject({ code: 'TURN_BUSY' })
    await ended
    await running
    expect(await fixture.events()).toEqual(['turn/start 1', 'tool/call c1', 'tool/result c1', 'turn/end 1 aborted'])
  })
})
