import { describe, expect, it } from 'vitest'
import { ConflictError, type Append } from '../../server/event-log/event-log.ts'
import { recover } from '../../server/invocations/recovery.ts'
import { invokeBatch } from '../../server/invocations/invoke-batch.ts'
import { contextFrom } from '../helpers/app.ts'
import { CallFixture } from '../helpers/call-fixture.ts'
import { deferred, isPending } from '../helpers/pipeline-fixture.ts'
import { until } from '../helpers/until.ts'

const has =
  (type: string) =>
  ({ events = [] }: Append): boolean =>
    events.some((event) => event.type === type)

const codeOf = (error: { name: string; code?: string }): string => error.code ?? error.name

describe('sessions that cannot be stored', () => {
  it('a refused first append fails the call, and the next use begins from what is stored', async () => {
    const fixture = new CallFixture()
    fixture.log.refuses = has('turn/start')
    await expect(fixture.invoke('c1')).rejects.toThrow('the disk is full')
    expect(fixture.stale).toEqual(['s1'])
    fixture.log.refuses = () => false
    await fixture.invoke('c1')
    expect(await fixture.events()).toEqual(['turn/start 1', 'tool/call c1', 'tool/result c1'])
  })

  it('a refused call that stood alone is as if it had not come: its neighbours are closed as ever', async () => {
    const fixture = new CallFixture()
    const gate = deferred<string>()
    fixture.body = () => gate.promise
    const running = fixture.invoke('c1')
    await fixture.calls.find('s1', 'c1')?.whenStored()
    await until(() => fixture.calls.find('s1', 'c1')?.state === 'running')
    // A full disk: what opens is refused, what closes is not (reliability.md C6).
    fixture.log.refuses = ({ closing }) => closing !== true
    await expect(fixture.invoke('c2')).rejects.toThrow('the disk is full')
    expect(fixture.stale).toEqual([])
    gate.resolve('done')
    expect((await running).value).toBe('done')
    fixture.log.refuses = () => false
    await fixture.invoke('c2')
    expect(await fixture.events()).toEqual([
      'turn/start 1',
      'tool/call c1',
      'tool/result c1',
      'tool/call c2',
      'tool/result c2'
    ])
    const [row] = await fixture.log.rows('sessions', { id: 's1' })
    expect(row).toMatchObject({ turn: 1, turn_open: 1, step: 3 })
  })

  it('what a refused call would have stored of the session is stored with the next append', async () => {
    const fixture = new CallFixture()
    const gate = deferred<string>()
    fixture.body = () => gate.promise
    const running = fixture.invoke('c1', 's1', { step: 1 })
    await until(() => fixture.calls.find('s1', 'c1')?.state === 'running')
    const session = await fixture.open()
    session.queueContext(contextFrom('kept'), { isDelivered: true })
    fixture.log.refuses = ({ closing }) => closing !== true
    await expect(fixture.invoke('c2', 's1', { step: 1 })).rejects.toThrow('the disk is full')
    gate.resolve('done')
    await running
    const [row] = await fixture.log.rows('sessions', { id: 's1' })
    expect(String(row?.['contexts'])).toContain('ctx-kept')
  })

  it('a result that cannot be stored is no success, ends the session’s other calls, and is unknown from then on', async () => {
    const fixture = new CallFixture()
    const gate = deferred<string>()
    let isAborted = false
    fixture.body = ({ callId, signal }) => {
      if (callId === 'c1') return gate.promise
      return new Promise((resolve) =>
        signal.addEventListener('abort', () => {
          isAborted = true
          resolve('stopped')
        })
      )
    }
    const first = fixture.invoke('c1')
    await until(() => fixture.calls.find('s1', 'c1')?.state === 'running')
    const second = fixture.invoke('c2')
    await until(() => fixture.calls.find('s1', 'c2')?.state === 'running')
    fixture.log.refuses = has('tool/result')
    gate.resolve('done')
    const outcomes = await Promise.allSettled([first, second])
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    expect(isAborted).toBe(true)
    await expect(fixture.invoke('c3')).rejects.toThrow()
    fixture.log.refuses = () => false
    const again = await fixture.invoke('c1')
    expect(again).toMatchObject({
      replayed: true,
      error: { info: { code: 'TOOL_OUTCOME_UNKNOWN' }, effect: 'unknown', retryable: false }
    })
    expect((await fixture.events()).filter((line) => line.startsWith('turn'))).toEqual([
      'turn/start 1',
      'turn/end 1 error'
    ])
    expect((await fixture.log.read({ session: 's1', after: -1, limit: 100 })).events.at(-1)?.data).toEqual({
      turn: 1,
      reason: { kind: 'error', code: 'STORE_UNAVAILABLE' }
    })
  })

  it('a failure of another kind ends the turn too, without anybody asking, and its code says what is known of it [core-30.unknown-turn-end]', async () => {
    const fixture = new CallFixture()
    await fixture.invoke('c0')
    fixture.log.refuses = has('tool/result')
    fixture.log.error = () => new TypeError('a fault of this server')
    await expect(fixture.invoke('c1')).rejects.toThrow('a fault')
    fixture.log.refuses = () => false
    await until(async () => (await fixture.events()).length === 6)
    const last = (await fixture.log.read({ session: 's1', after: 4, limit: 1 })).events[0]
    expect([last?.type, last?.data]).toEqual(['turn/end', { turn: 1, reason: { kind: 'error', code: 'UNKNOWN' } }])
  })

  it('when the log is there again, what failed is repaired without being asked for', async () => {
    const fixture = new CallFixture()
    fixture.log.refuses = has('tool/result')
    await expect(fixture.invoke('c1')).rejects.toThrow()
    fixture.log.tell('unavailable')
    expect(await fixture.events()).toEqual(['turn/start 1', 'tool/call c1'])
    fixture.log.tell('open')
    await until(async () => (await fixture.events()).length === 2)
    fixture.log.refuses = () => false
    fixture.log.tell('open')
    await until(async () => (await fixture.events()).length === 4)
    expect(await fixture.events()).toEqual(['turn/start 1', 'tool/call c1', 'tool/result c1', 'turn/end 1 error'])
  })

  it('one that cannot be put right yet is found all the same, to be read and for nothing else', async () => {
    const fixture = new CallFixture()
    const body = deferred<string>()
    fixture.body = () => body.promise
    const running = fixture.invoke('c1')
    await until(() => fixture.calls.find('s1', 'c1')?.state === 'running')
    fixture.log.refuses = () => true
    const session = await fixture.open()
    session.fail(new Error('a fault of this server'))
    // Its body still runs.
    expect(await fixture.sessions.find('s1')).toBe(session)
    body.resolve('late')
    await expect(running).rejects.toThrow()
    // The log takes nothing, though it does not say so.
    const found = await fixture.sessions.find('s1')
    expect([found?.isStale, found?.turns.state.turn]).toEqual([true, 1])
    expect(() => found?.assertBelieved()).toThrow('could not be stored')
    await expect(fixture.open()).rejects.toThrow('the disk is full')
    fixture.log.refuses = () => false
    expect((await fixture.sessions.find('s1'))?.isStale).toBe(false)
    expect((await fixture.events()).at(-1)).toBe('turn/end 1 error')
  })

  it('an append that breaks a relation writes nothing and is believed no more', async () => {
    const fixture = new CallFixture()
    const session = await fixture.open()
    const stray = { type: 'tool/call', data: { turn: 1, step: 1, callId: 'x', name: 'x', arguments: '{}' } }
    await expect(session.append([stray])).rejects.toThrow('not open')
    expect(session.isStale).toBe(true)
    expect(await fixture.open()).not.toBe(session)
    expect(fixture.log.appends).toEqual([])
  })

  it('a refusal that is no fault of the store ends the session too', async () => {
    const fixture = new CallFixture()
    await fixture.invoke('c0')
    fixture.log.refuses = has('tool/call')
    fixture.log.error = () => new ConflictError('calls', 'there already')
    await expect(fixture.invoke('c1')).rejects.toThrow('there already')
    expect(fixture.stale).toEqual(['s1'])
  })

  it('a batch whose store fails in the middle drains its bodies and rejects; recovery closes what it left', async () => {
    const fixture = new CallFixture()
    const gate = deferred<string>()
    fixture.body = () => gate.promise
    const session = await fixture.open()
    fixture.log.refuses = ({ events = [] }) => events.some((event) => (event.data as any).callId === 'c2')
    const calls = ['c1', 'c2', 'c3'].map((callId) => ({ callId, name: 'body' }))
    const batch = invokeBatch(fixture.invocations, { session, calls })
    batch.catch(() => undefined)
    await until(() => fixture.stale.length === 1)
    expect(await isPending(batch)).toBe(true)
    gate.resolve('late')
    await expect(batch).rejects.toThrow('the disk is full')
    await until(() => fixture.calls.size === 0)
    fixture.log.refuses = () => false
    await fixture.open()
    const rows = await fixture.log.rows('calls', { session: 's1' })
    const codes = rows.map(({ outcome }) => JSON.parse(String(outcome)).error?.info?.code)
    expect(codes).toEqual(['TOOL_OUTCOME_UNKNOWN', 'TOOL_NOT_STARTED', 'TOOL_OUTCOME_UNKNOWN'])
    expect((await fixture.events()).slice(-2)).toEqual(['step/end 1/1', 'turn/end 1 error'])
  })
})

describe('queued contexts', () => {
  it('are stored with the result that brought them, and begin the next step of the next run', async () => {
    const first = new CallFixture()
    first.body = (exec) => (exec.deferContext(contextFrom('kept')), 1)
    await first.invoke('c1')
    const [row] = await first.log.rows('sessions', { id: 's1' })
    expect(JSON.parse(String(row?.['contexts']))).toEqual([{ message: contextFrom('kept'), isDelivered: true }])
    await recover(first.log)
    const second = new CallFixture(first.log)
    const steps: unknown[] = []
    second.tools.addHook('onStep', (_agent, messages) => steps.push(...messages))
    const answer = await second.invoke('c2')
    expect(answer.additionalContexts).toBeUndefined()
    expect(steps).toEqual([contextFrom('kept')])
    expect((await second.events()).slice(-5)).toEqual([
      'turn/end 1 interrupted',
      'turn/start 2',
      'user/message ctx-kept',
      'tool/call c2',
      'tool/result c2'
    ])
    expect((await second.log.rows('sessions', { id: 's1' }))[0]?.['contexts']).toBeNull()
  })

  it('come in the next answer when they came between calls, and in no other', async () => {
    const fixture = new CallFixture()
    const session = await fixture.open()
    session.queueContext(contextFrom('notice'))
    const idsOf = ({ additionalContexts }: { additionalContexts?: readonly { id: string }[] }) =>
      additionalContexts?.map(({ id }) => id)
    expect(idsOf(await fixture.invoke('c1'))).toEqual(['ctx-notice'])
    session.queueContext(contextFrom('later'))
    await session.append([])
    fixture.body = () => {
      session.queueContext(contextFrom('during'))
      return 1
    }
    const answer = await fixture.invoke('c2')
    expect(idsOf(answer)).toEqual(['ctx-later', 'ctx-during'])
    expect((await fixture.invoke('c2')).additionalContexts).toEqual(answer.additionalContexts)
    fixture.body = () => 1
    expect((await fixture.invoke('c3')).additionalContexts).toBeUndefined()
  })

  it('wait for a step to begin: a joined one does not take them', async () => {
    const fixture = new CallFixture()
    fixture.body = (exec) => (exec.deferContext(contextFrom(exec.callId)), 1)
    await fixture.invoke('c1', 's1', { step: 1 })
    fixture.body = () => 1
    await fixture.invoke('c2', 's1', { step: 1 })
    expect(await fixture.events()).not.toContain('user/message ctx-c1')
    await fixture.invoke('c3', 's1', { step: 2 })
    expect((await fixture.events()).slice(-4)).toEqual([
      'step/start 1/2',
      'user/message ctx-c1',
      'tool/call c3',
      'tool/result c3'
    ])
  })
})

describe('which session is meant', () => {
  it('is the same object while it lives, and another scope’s is none', async () => {
    const fixture = new CallFixture()
    const opened = await Promise.all([fixture.open(), fixture.open(), fixture.sessions.peek(fixture.tree.global, 's1')])
    expect(new Set(opened).size).toBe(1)
    const scope = fixture.tree.create('a')
    await expect(fixture.sessions.open(scope, 's1')).rejects.toSatisfy(
      (error: any) => codeOf(error) === 'UNKNOWN_SESSION'
    )
    // Nothing of it is stored yet.
    expect(await fixture.sessions.find('s1')).toBeUndefined()
    await fixture.invoke('c1')
    expect(await fixture.sessions.find('s1')).toBe(opened[0])
    expect(await fixture.sessions.find('s2')).toBeUndefined()
  })

  it('of a scope that is gone there is none, until there is a scope of that id again', async () => {
    const fixture = new CallFixture()
    const scope = fixture.tree.create('a')
    const session = await fixture.sessions.open(scope, 'sa')
    await session.append([])
    fixture.tree.remove(scope)
    expect(await fixture.sessions.find('sa')).toBeUndefined()
    const again = fixture.tree.create('a')
    expect((await fixture.sessions.open(again, 'sa')).scope).toBe(again)
  })

  it('keeps a bounded number of idle sessions, and reads the others back', async () => {
    const fixture = new CallFixture()
    await fixture.invoke('c1', 'first', { step: 1 })
    const first = await fixture.open('first')
    for (let n = 0; n <= 10_000; n += 1) await fixture.open(`s${n}`)
    expect(await fixture.open('first')).not.toBe(first)
    expect((await fixture.invoke('c1', 'first')).replayed).toBe(true)
    // Nothing has failed: its turn and its step are as they were.
    await fixture.invoke('c2', 'first', { step: 1 })
    await fixture.invoke('c3', 'first', { step: 2 })
    expect(await fixture.events('first')).toEqual([
      'turn/start 1',
      'step/start 1/1',
      'tool/call c1',
      'tool/result c1',
      'tool/call c2',
      'tool/result c2',
      'step/end 1/1',
      'step/start 1/2',
      'tool/call c3',
      'tool/result c3'
    ])
  })
})
