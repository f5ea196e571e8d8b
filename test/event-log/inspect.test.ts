import { expect, it } from 'vitest'
import { closersOf } from '../../server/invocations/recovery.ts'
import { addSession, openTestLog } from '../helpers/sqlite-logs.ts'

it('C86 looking at a crashed session shows what would close it, and writes nothing', async () => {
  const log = await openTestLog()
  await addSession(log, 's', { turn: 1, turn_open: 1 })
  const place = { turn: 1, step: 1 }
  const row = { session: 's', call_id: 'c', name: 't', args_hash: 'h', ...place, state: 'started', accepted_at: 1 }
  await log.append({
    session: 's',
    events: [
      { type: 'turn/start', data: { turn: 1 }, time: 5 },
      { type: 'tool/call', data: { ...place, callId: 'c', name: 't', arguments: '{}' }, time: 6 }
    ],
    writes: [{ table: 'calls', op: 'insert', row: { ...row, call_seq: { seqOf: 1 } } }]
  })
  const closers = await closersOf(log, 's')
  expect(closers?.events?.map(({ type, time }) => [type, time])).toEqual([
    ['tool/result', 6],
    ['turn/end', 6]
  ])
  expect(await log.read({ session: 's', after: -1, limit: 10 })).toMatchObject({
    events: [{ seq: 0 }, { seq: 1 }],
    head: 1
  })
  expect((await log.read({ session: 's', after: 99, limit: 10 })).events).toEqual([])
  await expect(log.read({ session: 's', after: -2, limit: 10 })).rejects.toThrow(RangeError)
})
