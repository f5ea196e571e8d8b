import { statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { NewEvent } from '../../../server/event-log/event-log.ts'
import type { SqliteLog } from '../../../server/event-log/sqlite/log.ts'
import type { RetentionStep } from '../../../server/event-log/sqlite/protocol.ts'
import { verifyLog } from '../../../server/event-log/sqlite/verify-log.js'
import { addSession, openTestLog } from '../../helpers/sqlite-logs.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'

const note = (time: number, data = 'x'): NewEvent => ({ type: 'note', data, time })

async function add(log: SqliteLog, session: string, ...events: NewEvent[]): Promise<void> {
  await log.append({ session, events })
}

/** Every step until none is left. */
async function retain(log: SqliteLog, step: Omit<RetentionStep, 'after'>) {
  const report = { deleted: 0, emptied: [] as string[], steps: 0, most: 0 }
  for (let after: number | undefined = -1; after !== undefined;) {
    const progress = await log.retain({ ...step, after })
    report.deleted += progress.deleted
    report.emptied.push(...progress.emptied)
    report.steps += 1
    report.most = Math.max(report.most, progress.deleted)
    after = progress.next
  }
  return report
}

const seqs = async (log: SqliteLog, session: string): Promise<number[]> =>
  (await log.read({ session, after: -1, limit: 500 })).events.map(({ seq }) => seq)

const callRow = (callId: string, state: string, resultSeq: number | null) => ({
  table: 'calls' as const,
  op: 'insert' as const,
  row: {
    session: 's',
    call_id: callId,
    name: 't',
    args_hash: 'h',
    turn: 1,
    step: 1,
    state,
    accepted_at: 1,
    result_seq: resultSeq
  }
})
const call = (callId: string, time: number): NewEvent => ({ type: 'tool/call', data: { callId }, time })
const result = (callId: string, time: number): NewEvent => ({
  type: 'tool/result',
  data: { message: { source: { callId } } },
  surfaceOp: 'append',
  time
})

describe('retention by age', () => {
  it('deletes what is older, in steps, keeps the chain, and a cursor before it has expired', async () => {
    const directory = temporaryDirectory()
    const log = await openTestLog({ directory })
    for (const id of ['old', 'mixed', 'new']) await addSession(log, id)
    await add(log, 'old', ...Array.from({ length: 1200 }, () => note(10)))
    await add(log, 'mixed', ...Array.from({ length: 700 }, (_, n) => note(n < 650 ? 20 : 200)))
    await add(log, 'new', note(300))
    expect(await retain(log, { before: 100 })).toEqual({ deleted: 1850, emptied: ['old'], steps: 4, most: 500 })
    expect(await seqs(log, 'mixed')).toEqual(Array.from({ length: 50 }, (_, n) => 650 + n))
    expect(await seqs(log, 'old')).toEqual([])
    expect(await seqs(log, 'new')).toEqual([0])
    expect(await log.read({ session: 'mixed', after: 3, limit: 1 })).toMatchObject({ oldest: 650, head: 699 })
    expect(await log.read({ after: 5, limit: 1 })).toMatchObject({ oldest: 1850, head: 1900 })
    // Numbers go on where they were.
    expect(await log.append({ session: 'old', events: [note(400)] })).toMatchObject([{ seq: 1200, position: 1901 }])
    expect(await retain(log, { before: 100 })).toMatchObject({ deleted: 0, emptied: [] })
    await log.close()
    expect(verifyLog(directory)).toMatchObject({ sessions: 3, events: 52, damagedSessions: [] })
    const again = await openTestLog({ directory })
    expect(again).toMatchObject({ head: 1901, hasLostTail: false, damagedSessions: new Set() })
  })

  it('spares a session while a call of it runs or waits, and takes the calls and approvals that ended along', async () => {
    const log = await openTestLog()
    await addSession(log, 's')
    const done = callRow('done', 'done', 1)
    const running = callRow('running', 'started', null)
    await log.append({
      session: 's',
      events: [call('done', 1), result('done', 1), call('running', 1)],
      writes: [done, running]
    })
    const approval = (id: string, state: string, at: number) => ({
      table: 'approvals' as const,
      op: 'insert' as const,
      row: { id, session: 's', scope: 'global', kind: 'approval', state, data: '{}', created_at: at }
    })
    await log.append({
      writes: [approval('a', 'decided', 1), approval('b', 'pending', 1), approval('c', 'decided', 9999)]
    })
    expect(await retain(log, { before: 100 })).toMatchObject({ deleted: 0 })
    expect(await retain(log, { bytes: 0 })).toMatchObject({ deleted: 0 })
    expect(await seqs(log, 's')).toEqual([0, 1, 2])

    const ended = {
      table: 'calls' as const,
      op: 'update' as const,
      row: { session: 's', call_id: 'running', state: 'done', result_seq: 3 }
    }
    await log.append({ session: 's', events: [result('running', 500)], writes: [ended] })
    expect(await retain(log, { before: 100 })).toMatchObject({ deleted: 3, emptied: [] })
    expect(await seqs(log, 's')).toEqual([3])
    // A pruned call is no longer known, so its id may be used again (reliability.md §2.5).
    expect((await log.rows('calls', {})).map((row) => row['call_id'])).toEqual(['running'])
    expect((await log.rows('approvals', {})).map((row) => row['id'])).toEqual(['b', 'c'])
    await log.append({ session: 's', events: [call('done', 600)], writes: [callRow('done', 'started', null)] })
  })

  it('C12: an event of a clock that ran ahead keeps those behind it, and one of a clock that ran behind takes nothing along', async () => {
    const log = await openTestLog()
    await addSession(log, 'ahead')
    await addSession(log, 'behind')
    await add(log, 'ahead', note(10), note(9_999_999), note(10), note(300))
    await add(log, 'behind', note(300), note(1), note(300))
    expect(await retain(log, { before: 100 })).toMatchObject({ deleted: 1 })
    expect(await seqs(log, 'ahead')).toEqual([1, 2, 3])
    expect(await seqs(log, 'behind')).toEqual([0, 1, 2])
  })
})

describe('retention by size', () => {
  it('deletes the oldest events of all until what is in use fits, and gives the room back to the file system', async () => {
    const directory = temporaryDirectory()
    const log = await openTestLog({ directory })
    await addSession(log, 'a')
    await addSession(log, 'b')
    // 1.9 kB each, too short to be compressed: 12 MB.
    const text = 'y'.repeat(1900)
    for (let n = 0; n < 15; n += 1) {
      await add(log, 'a', ...Array.from({ length: 200 }, () => note(1, text)))
      await add(log, 'b', ...Array.from({ length: 200 }, () => note(1, text)))
    }
    const limit = 4 * 1024 * 1024
    const report = await retain(log, { bytes: limit })
    expect(report.deleted).toBeGreaterThan(3000)
    expect(report.deleted).toBeLessThan(5500)
    expect(report.most).toBeLessThanOrEqual(500)
    const page = await log.read({ after: -1, limit: 1 })
    expect(page.events[0]?.position).toBe(report.deleted)
    expect(await retain(log, { bytes: limit })).toMatchObject({ deleted: 0 })
    await retain(log, {})
    await log.close()
    expect(statSync(join(directory, 'toolwright.db')).size).toBeLessThan(limit * 1.5)
    expect(verifyLog(directory).damagedSessions).toEqual([])
  })

  it('never blocks appends: those that come meanwhile are committed between two steps', async () => {
    const log = await openTestLog()
    await addSession(log, 'old')
    await addSession(log, 'new')
    for (let n = 0; n < 20; n += 1) await add(log, 'old', ...Array.from({ length: 500 }, () => note(1)))
    const isRunning = { now: true }
    const retaining = retain(log, { before: 100 }).finally(() => (isRunning.now = false))
    let appended = 0
    while (isRunning.now) {
      await add(log, 'new', note(500))
      appended += 1
    }
    expect(await retaining).toMatchObject({ deleted: 10_000, most: 500 })
    // One at a time, each waits for one step at most: so about as many as there are steps.
    expect(appended).toBeGreaterThanOrEqual(15)
    expect(await seqs(log, 'new')).toHaveLength(Math.min(appended, 500))
  })
})
