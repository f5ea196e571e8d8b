import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { EventLog, NewEvent, Row, StoredEvent, TableWrite } from '../../server/event-log/event-log.ts'
import { openMemoryLog } from '../../server/event-log/memory-log.ts'
import { recover } from '../../server/invocations/recovery.ts'
import { Relations } from '../../server/sessions/relations.ts'

/** Of `{}`: a call that waits goes on only with the arguments it was asked about. */
const hashOfNothing = createHash('sha256').update('{}').digest('base64url')
const place = { turn: 1, step: 1 }
const call = (callId: string, at = place): NewEvent => ({
  type: 'tool/call',
  data: { ...at, callId, name: 'x', arguments: '{}' },
  time: 77
})
const result = (callId: string, source: number | { sameAppend: number }, at = place): NewEvent => ({
  type: 'tool/result',
  data: { ...at, message: { source: { kind: 'tool', callId } } },
  surfaceOp: 'append',
  sourceEventSeqs: [source]
})

/** A log as a server leaves it that dies in step 1 of turn 1, with calls in these states, those that were started in the log. */
async function leftBehind(states: Record<string, 'accepted' | 'started' | 'awaiting-approval'>): Promise<EventLog> {
  const log = openMemoryLog()
  const session: Row = { id: 's', scope: 'global', created_at: 1, turn: 1, turn_open: 1, step: 1 }
  const events: NewEvent[] = [
    { type: 'turn/start', data: { turn: 1 }, time: 76 },
    { type: 'step/start', data: place, time: 76 }
  ]
  const writes: TableWrite[] = [{ table: 'sessions', op: 'insert', row: session }]
  for (const [callId, state] of Object.entries(states)) {
    const row: Row = {
      session: 's',
      call_id: callId,
      name: 'x',
      args_hash: hashOfNothing,
      ...place,
      state,
      accepted_at: 1
    }
    const seq = state === 'accepted' ? {} : { call_seq: events.push(call(callId)) - 1 }
    writes.push({ table: 'calls', op: 'insert', row: { ...row, ...seq } })
  }
  await log.append({ session: 's', events, writes })
  return log
}

const added = async (log: EventLog): Promise<StoredEvent[]> => {
  const { events } = await log.read({ session: 's', after: -1, limit: 100 })
  return events.slice(events.findLastIndex(({ type }) => type === 'tool/call') + 1)
}

const fates = (events: readonly StoredEvent[]) =>
  events
    .filter(({ type }) => type === 'tool/result')
    .map(({ data, sourceEventSeqs }) => {
      const { message, error } = data as { message: { source: { callId: string } }; error: unknown }
      return [message.source.callId, error, sourceEventSeqs]
    })

describe('what recovery writes (core.md §23)', () => {
  const unknown = { name: 'ToolOutcomeUnknownError', code: 'TOOL_OUTCOME_UNKNOWN' }
  const notStarted = { name: 'ToolNotStartedError', code: 'TOOL_NOT_STARTED' }

  it('a recorded call is unknown and cites its call, an accepted one was not started and cites nothing [core-23.repair-unknown] [core-23.repair-not-started] [core-30.outcome-unknown] [core-30.not-started]', async () => {
    const log = await leftBehind({ c1: 'started', c2: 'started', c3: 'accepted', c4: 'accepted' })
    await recover(log)
    expect(fates(await added(log))).toEqual([
      ['c1', unknown, [2]],
      ['c2', unknown, [3]],
      ['c3', notStarted, undefined],
      ['c4', notStarted, undefined]
    ])
  })

  it('then the step and the turn end as interrupted, at the time of the last event, and once [core-23.repair-ends]', async () => {
    const log = await leftBehind({ c1: 'started' })
    await recover(log)
    const events = await added(log)
    expect(events.map(({ type, time }) => [type, time])).toEqual([
      ['tool/result', 77],
      ['step/end', 77],
      ['turn/end', 77]
    ])
    expect(events.at(-1)?.data).toEqual({ turn: 1, reason: { kind: 'interrupted' } })
    await recover(log)
    expect(await added(log)).toEqual(events)
  })

  it('a call that waits for an approval is left, with its step and its turn [core-23.repair-waiting]', async () => {
    const log = await leftBehind({ c1: 'started', c2: 'awaiting-approval' })
    await recover(log)
    const events = await added(log)
    expect(events.map(({ type }) => type)).toEqual(['tool/result'])
    expect(fates(events)).toEqual([['c1', unknown, [2]]])
    expect(await log.rows('calls', { state: 'awaiting-approval' })).toHaveLength(1)
    expect(await log.rows('sessions', { turn_open: 1 })).toHaveLength(1)
  })
})

describe('the relations of calls and results (core.md §23)', () => {
  const open = (relations: Relations, events: NewEvent[]): void =>
    relations.apply(events, ({ turn, step }) => turn === 1 && step === 1)
  const elsewhere = { turn: 1, step: 2 }

  it('a call names an open step, and its result answers it, in that step and by citing it [core-23.open-step]', () => {
    open(new Relations(), [call('a'), result('a', { sameAppend: 0 })])
    const relations = new Relations()
    open(relations, [call('a')])
    relations.acknowledge({ ...call('a'), seq: 4 } as unknown as StoredEvent)
    expect(() => open(relations, [result('a', 4, elsewhere)])).toThrow('another step')
    expect(() => open(relations, [result('a', 3)])).toThrow('does not cite its call')
    expect(() => open(relations, [result('b', 4)])).toThrow('not pending')
    expect(() => open(relations, [call('b', elsewhere)])).toThrow('not open')
    expect(() => open(relations, [call('a')])).toThrow('pending already')
    open(relations, [result('a', 4)])
  })

  it('a second result of a call is refused [core-23.one-result]', () => {
    const relations = new Relations()
    open(relations, [call('a'), result('a', { sameAppend: 0 })])
    expect(() => open(relations, [result('a', 0)])).toThrow('not pending')
  })
})
