import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { Row, TableWrite } from '../../server/event-log/event-log.ts'
import { openMemoryLog } from '../../server/event-log/memory-log.ts'
import { closersOf, openSteps, recover, repairSession } from '../../server/invocations/recovery.ts'
import { readStoredCall } from '../../server/invocations/stored-calls.ts'
import { brief } from '../helpers/app.ts'
import { CallFixture } from '../helpers/call-fixture.ts'
import { FlakyLog } from '../helpers/flaky-log.ts'
import { deferred } from '../helpers/pipeline-fixture.ts'
import { until } from '../helpers/until.ts'

/** Of `{}`: a call that waits goes on only with the arguments it was asked about. */
const hashOfNothing = createHash('sha256').update('{}').digest('base64url')
const session: Row = { id: 's1', scope: 'global', created_at: 1, turn: 1, turn_open: 1, step: 2 }
const callRow = (callId: string, state: string, more: TableWrite['row'] = {}): TableWrite => ({
  table: 'calls',
  op: 'insert',
  row: {
    session: 's1',
    call_id: callId,
    name: 'body',
    args_hash: hashOfNothing,
    turn: 1,
    step: 1,
    state,
    accepted_at: 1,
    ...more
  }
})
const call = (callId: string, step = 1) => ({
  type: 'tool/call',
  data: { turn: 1, step, callId, name: 'body', arguments: '{}' },
  time: 77
})

/** What a server leaves that died with a batch of three: one running, one asking, one not started. */
async function crashed(log = new FlakyLog(), state = 'awaiting-approval') {
  await log.append({
    session: 's1',
    events: [
      { type: 'turn/start', data: { turn: 1 }, time: 77 },
      { type: 'step/start', data: { turn: 1, step: 1 }, time: 77 },
      call('c1'),
      call('c2', 2)
    ],
    writes: [
      { table: 'sessions', op: 'insert', row: session },
      callRow('c1', 'started', { call_seq: 2, started_at: 5 }),
      callRow('c2', state, { call_seq: 3, started_at: 5, step: 2 }),
      callRow('c3', 'accepted')
    ]
  })
  return log
}

const eventsOf = async (log: { read: FlakyLog['read'] }, after = -1) =>
  (await log.read({ session: 's1', after, limit: 100 })).events

describe('what a dead server left (core.md §23, backends.md §14.5)', () => {
  it('C86 is looked at without being written; reading past the end is empty, and before it an error', async () => {
    const log = await crashed()
    const before = await eventsOf(log)
    const closers = await closersOf(log, 's1')
    expect(closers?.events?.map(({ type }) => type)).toEqual(['tool/result', 'tool/result', 'step/end'])
    expect(await eventsOf(log)).toEqual(before)
    expect((await log.read({ session: 's1', after: 999, limit: 1 })).events).toEqual([])
    await expect(log.read({ session: 's1', after: -2, limit: 1 })).rejects.toThrow()
  })

  it('C87 what is not known is not there: neither a session, nor a state of a call', async () => {
    const log = openMemoryLog()
    expect(await closersOf(log, 'nobody')).toBeUndefined()
    await repairSession(log, 'nobody')
    const fixture = new CallFixture(new FlakyLog())
    await fixture.invoke('c1')
    await fixture.log.append({
      writes: [{ table: 'calls', op: 'put', row: { session: 's1', call_id: 'c1', state: 'odd' } }]
    })
    await expect(readStoredCall(fixture.log, await fixture.open(), 'c1')).rejects.toThrow('"odd"')
  })

  it('closes a turn: results in order, with the last real time, then steps and turn; twice is once', async () => {
    const log = await crashed(new FlakyLog(), 'started')
    expect(await recover(log)).toBe(1)
    const events = await eventsOf(log, 3)
    expect(events.map((event) => brief(event as never))).toEqual([
      'tool/result c1',
      'tool/result c2',
      'tool/result c3',
      'step/end 1/1',
      'turn/end 1 interrupted'
    ])
    expect(events.map(({ time }) => time)).toEqual([77, 77, 77, 77, 77])
    expect(events.map(({ sourceEventSeqs }) => sourceEventSeqs)).toEqual([[2], [3], undefined, undefined, undefined])
    const data = events.slice(0, 3).map((event) => event.data as any)
    expect(data.map(({ error }) => error)).toEqual([
      { name: 'ToolOutcomeUnknownError', code: 'TOOL_OUTCOME_UNKNOWN' },
      { name: 'ToolOutcomeUnknownError', code: 'TOOL_OUTCOME_UNKNOWN' },
      { name: 'ToolNotStartedError', code: 'TOOL_NOT_STARTED' }
    ])
    expect(data.map(({ message }) => message.id)).toEqual(['recovered:c1', 'recovered:c2', 'recovered:c3'])
    expect(await recover(log)).toBe(0)
    expect(await eventsOf(log, 3)).toHaveLength(5)
  })

  it('a call of an idempotent tool may be made again though its outcome is unknown (api.md §2)', async () => {
    const log = await crashed(new FlakyLog(), 'started')
    const asked: unknown[] = []
    await recover(log, { isIdempotent: (...call) => asked.push(call) > 1 })
    expect(asked).toEqual([
      ['body', 'global'],
      ['body', 'global'],
      ['body', 'global']
    ])
    const errors = (await log.rows('calls', {})).map(({ outcome }) => JSON.parse(String(outcome)).error)
    expect(errors.map(({ effect, retryable }) => [effect, retryable])).toEqual([
      ['unknown', false],
      ['unknown', true],
      ['none', true]
    ])
  })

  it('reads no more than the turn that is open', async () => {
    const log = new FlakyLog()
    const turnOf = (turn: number) => [
      { type: 'turn/start', data: { turn } },
      { type: 'step/start', data: { turn, step: 1 } }
    ]
    await log.append({
      session: 's1',
      events: Array.from({ length: 1000 }, (_, n) => turnOf(n + 1)).flat(),
      writes: [{ table: 'sessions', op: 'insert', row: { ...session, turn: 1000 } }]
    })
    const reads: number[] = []
    const { read } = log
    log.read = (query) => (reads.push(query.after), read(query))
    expect(await openSteps(log, 's1', 1000)).toEqual([1])
    expect(reads).toEqual([1998])
  })

  it('repairs every session that was left, however many', async () => {
    const log = new FlakyLog()
    const ids = Array.from({ length: 200 }, (_, n) => `s${n}`)
    for (const id of ids) {
      const writes = [{ table: 'sessions' as const, op: 'insert' as const, row: { ...session, id } }]
      await log.append({ session: id, events: [{ type: 'turn/start', data: { turn: 1 } }], writes })
    }
    expect(await recover(log)).toBe(200)
    expect(await log.rows('sessions', { turn_open: 1 })).toEqual([])
    expect(await recover(log)).toBe(0)
  })

  it('a session with a stored call and no event is closed as well', async () => {
    const log = new FlakyLog()
    await log.append({
      writes: [{ table: 'sessions', op: 'insert', row: { ...session, turn_open: 0 } }, callRow('c1', 'accepted')]
    })
    expect(await recover(log)).toBe(1)
    expect(await eventsOf(log)).toMatchObject([{ type: 'tool/result', data: { error: { code: 'TOOL_NOT_STARTED' } } }])
  })

  it('a call that waits for an approval keeps its step and its turn open, and goes on in the next run', async () => {
    const log = await crashed()
    await recover(log)
    expect((await eventsOf(log, 3)).map((event) => brief(event as never))).toEqual([
      'tool/result c1',
      'tool/result c3',
      'step/end 1/1'
    ])
    const fixture = new CallFixture(log)
    fixture.approvals = { request: async () => ({ outcome: 'allowed-once' }) }
    const restored = await fixture.open()
    expect([restored.isRecorded('c2'), restored.turns.isBusy]).toEqual([true, true])
    expect(() => restored.turns.openTurn()).toThrow('still running')
    // A new call in the turn that is open, while the other waits.
    await fixture.invoke('c4')
    const [row] = await log.rows('calls', { session: 's1', call_id: 'c2' })
    const live = await fixture.invocations.resume(restored, row as Row)
    expect(await fixture.invocations.resume(restored, row as Row)).toBe(live)
    const answer = await live.answer
    expect(answer).toMatchObject({ callId: 'c2', callSeq: 3, startedAt: 5, isError: false, value: 'ok' })
    expect(restored.turns.isBusy).toBe(false)
    expect((await fixture.invocations.report(restored, 'c2')).result).toEqual(answer)
    expect((await eventsOf(log, 6)).map((event) => brief(event as never))).toEqual([
      'tool/call c4',
      'tool/result c4',
      'tool/result c2'
    ])
  })

  it.each([
    ['whose arguments were struck out', { args_hash: 'of what was sent' }],
    ['whose record is gone', { call_seq: 0 }]
  ])('a waiting call %s cannot go on: it was not started, and its turn ends', async (_what, changed) => {
    const log = openMemoryLog()
    await log.append({
      session: 's1',
      events: [{ type: 'turn/start', data: { turn: 1 } }, call('c1')],
      writes: [
        { table: 'sessions', op: 'insert', row: session },
        callRow('c1', 'awaiting-approval', { call_seq: 1, started_at: 5, ...changed })
      ]
    })
    await recover(log)
    const { events } = await log.read({ session: 's1', after: 1, limit: 10 })
    expect(events.map(({ type }) => type)).toEqual(['tool/result', 'turn/end'])
    expect(events[0]?.data).toMatchObject({ error: { code: 'TOOL_NOT_STARTED' } })
    expect(await log.rows('calls', { state: 'awaiting-approval' })).toEqual([])
  })

  it('a waiting call of a step with events ends that step', async () => {
    const log = new FlakyLog()
    await log.append({
      session: 's1',
      events: [
        { type: 'turn/start', data: { turn: 1 } },
        { type: 'step/start', data: { turn: 1, step: 1 } },
        call('c1')
      ],
      writes: [
        { table: 'sessions', op: 'insert', row: { ...session, step: 1 } },
        callRow('c1', 'awaiting-approval', { call_seq: 2, started_at: 5 })
      ]
    })
    await recover(log)
    expect(await openSteps(log, 's1', 1)).toEqual([1])
    const fixture = new CallFixture(log)
    fixture.approvals = { request: async () => ({ outcome: 'allowed-once' }) }
    const restored = await fixture.open()
    const [row] = await log.rows('calls', { session: 's1' })
    await (
      await fixture.invocations.resume(restored, row as Row)
    ).answer
    expect((await fixture.events()).slice(3)).toEqual(['tool/result c1', 'step/end 1/1'])
    expect(await openSteps(log, 's1', 1)).toEqual([])
  })

  it('a waiting call that is cancelled ends by the pipeline, since its pair has begun', async () => {
    const log = await crashed()
    await recover(log)
    const fixture = new CallFixture(log)
    fixture.approvals = { request: async () => ({ outcome: 'allowed-once' }) }
    const restored = await fixture.open()
    const [row] = await log.rows('calls', { session: 's1', call_id: 'c2' })
    const gate = deferred<string>()
    fixture.body = () => gate.promise
    const resumed = fixture.invocations.resume(restored, row as Row)
    await until(() => fixture.calls.find('s1', 'c2') !== undefined)
    fixture.calls.abort(new Error('cancelled'))
    gate.resolve('late')
    const { error } = await (await resumed).answer
    expect(['ABORTED', 'ABORTED_BEFORE_DISPATCH']).toContain(error?.info?.code)
    expect((await fixture.events()).filter((line) => line === 'tool/call c2')).toHaveLength(1)
  })
})

describe('shutdown with a person still to answer (reliability.md §3.4)', () => {
  it('the caller is told where to ask, nothing is written, and the body never runs in this run', async () => {
    const fixture = new CallFixture()
    const decision = deferred<{ outcome: 'allowed-once' }>()
    fixture.approvals = { request: () => decision.promise }
    fixture.tools.addHook('preExecute', () => ({ kind: 'ask' }))
    let ran = 0
    fixture.body = () => (ran += 1)
    const waiting = fixture.invoke('a call')
    await until(() => fixture.calls.find('s1', 'a call')?.state === 'awaiting-approval')
    const before = await fixture.events()
    fixture.calls.beginShutdown()
    await expect(waiting).rejects.toMatchObject({
      code: 'SHUTTING_DOWN',
      headers: { location: '/calls/s1/a%20call' }
    })
    await expect(fixture.invoke('another')).rejects.toMatchObject({ code: 'SHUTTING_DOWN' })
    await fixture.calls.whenQuiet()
    decision.resolve({ outcome: 'allowed-once' })
    await new Promise((resolve) => setImmediate(resolve))
    expect(ran).toBe(0)
    expect(await fixture.events()).toEqual(before)
  })

  it('a call that comes to ask during the drain is left pending as well', async () => {
    const fixture = new CallFixture()
    const begun = deferred()
    fixture.approvals = { request: () => new Promise(() => undefined) }
    fixture.tools.addHook('preExecute', async () => {
      await begun.promise
      return { kind: 'ask' }
    })
    const call = fixture.invoke('c1')
    await until(() => fixture.calls.find('s1', 'c1')?.state === 'running')
    fixture.calls.beginShutdown()
    begun.resolve()
    await expect(call).rejects.toMatchObject({ code: 'SHUTTING_DOWN' })
  })

  it('a call waiting for a person gives its place back', async () => {
    const fixture = new CallFixture(new FlakyLog(), { maxConcurrent: 1 })
    const decision = deferred<{ outcome: 'allowed-once' }>()
    fixture.approvals = { request: () => decision.promise }
    fixture.tools.addHook('preExecute', (exec, next) => (exec.callId === 'asks' ? { kind: 'ask' } : next()))
    const asks = fixture.invoke('asks')
    await until(() => fixture.calls.find('s1', 'asks')?.state === 'awaiting-approval')
    const gate = deferred<string>()
    fixture.body = ({ callId }) => (callId === 'other' ? gate.promise : 'ok')
    const other = fixture.invoke('other')
    await until(() => fixture.calls.find('s1', 'other')?.state === 'running')
    decision.resolve({ outcome: 'allowed-once' })
    await until(() => fixture.calls.find('s1', 'asks')?.state === 'running')
    const third = fixture.invoke('third')
    expect(fixture.calls.find('s1', 'third')).toBeUndefined()
    gate.resolve('done')
    expect((await Promise.all([asks, other, third])).map(({ isError }) => isError)).toEqual([false, false, false])
  })
})
