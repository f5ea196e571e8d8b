import { execFileSync } from 'node:child_process'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  type Append,
  ConflictError,
  type EventLog,
  type NewEvent,
  type SessionPage,
  StoreUnavailableError,
  type StoredEvent
} from '../../server/event-log/event-log.ts'
import { blankRows } from '../../server/event-log/side-rows.ts'

export const sessionRow = (id: string, scope = 'global') => ({
  table: 'sessions' as const,
  op: 'insert' as const,
  row: { id, scope, created_at: 1, cwd: null }
})

export const note = (value: unknown, type = 'note'): NewEvent => ({ type, data: value as NewEvent['data'], time: 7 })
export const callEvent = (callId: string): NewEvent => ({ type: 'tool/call', data: { callId, name: 'x' }, time: 7 })
export const resultEvent = (callId: string, more: Partial<NewEvent> = {}): NewEvent => ({
  type: 'tool/result',
  data: { message: { source: { kind: 'tool', callId } } },
  time: 7,
  surfaceOp: 'append',
  ...more
})

const seqs = (events: readonly StoredEvent[]) => events.map(({ seq }) => seq)

/** What every event log does, whatever it is made of. */
export function eventLogContract(name: string, open: () => Promise<EventLog>): void {
  describe(`${name}: the contract of an event log`, () => {
    let log: EventLog

    beforeEach(async () => {
      log = await open()
    })
    afterEach(() => log.close())

    const begin = (session = 's', scope = 'global', events: NewEvent[] = []) =>
      log.append({ session, events, writes: [sessionRow(session, scope)] })

    it('numbers each session from 0 without a gap and the whole log by position [core-23.seq]', async () => {
      await begin('a')
      await begin('b', 'team')
      expect(log.head).toBe(-1)
      const [one, two, three] = await Promise.all([
        log.append({ session: 'a', events: [note(1), note(2)] }),
        log.append({ session: 'b', events: [note(3)] }),
        log.append({ session: 'a', events: [note(4)] })
      ])
      expect(seqs([...one, ...two, ...three])).toEqual([0, 1, 0, 2])
      expect([...one, ...two, ...three].map(({ position }) => position)).toEqual([0, 1, 2, 3])
      expect(two[0]).toEqual({ type: 'note', session: 'b', scope: 'team', seq: 0, position: 2, time: 7, data: 3 })
      expect(log.head).toBe(3)
    })

    it('hands out the same events when appending, telling and reading, all frozen [core-23.frozen]', async () => {
      const heard: StoredEvent[] = []
      log.onCommit((events) => heard.push(...events))
      const data = { deep: [{ text: 'x'.repeat(10_000), list: [1, 'é', null, '\u0000', '\ud800'] }], ['__proto__']: 1 }
      const appended = await begin('s', 'global', [note(data)])
      const { events } = await log.read({ session: 's', after: -1, limit: 10 })
      expect(events).toEqual(appended)
      expect(heard).toEqual(appended)
      for (const event of [...appended, ...events]) {
        expect(Object.isFrozen(event)).toBe(true)
        expect(Object.isFrozen((event.data as { deep: unknown[] }).deep[0])).toBe(true)
        expect(JSON.parse(JSON.stringify(event))).toEqual(event)
      }
      ;(data.deep[0] as { text: string }).text = 'changed later'
      expect(appended[0]?.data).toEqual(events[0]?.data)
    })

    it('tells listeners in order of position, after the commit and before the append resolves [core-23.observers]', async () => {
      await begin()
      const order: string[] = []
      log.onCommit((events) => {
        order.push(...events.map(({ position }) => `heard ${position}`))
        expect(log.head).toBe(events.at(-1)?.position)
        throw new Error('a listener that fails harms nobody')
      })
      const undo = log.onCommit(() => order.push('never'))
      undo()
      await Promise.all(
        [0, 1, 2].map(async (n) => {
          await log.append({ session: 's', events: [note(n)] })
          order.push(`resolved ${n}`)
        })
      )
      expect(order.filter((step) => step.startsWith('heard'))).toEqual(['heard 0', 'heard 1', 'heard 2'])
      for (const n of [0, 1, 2]) expect(order.indexOf(`heard ${n}`)).toBeLessThan(order.indexOf(`resolved ${n}`))
      expect(order).not.toContain('never')
    })

    it('core.md §23: refuses an append to a session from inside its observer, and takes one to another [core-23.observers]', async () => {
      await begin('a')
      await begin('b')
      const tried: Promise<unknown>[] = []
      const undo = log.onCommit(() => {
        undo()
        tried.push(
          log.append({ session: 'a', events: [note('inside')] }),
          log.append({ session: 'b', events: [note('other')] })
        )
      })
      await log.append({ session: 'a', events: [note(1)] })
      const [inside, other] = await Promise.allSettled(tried)
      expect(inside?.status).toBe('rejected')
      expect(other?.status).toBe('fulfilled')
      expect((await log.append({ session: 'a', events: [note(2)] }))[0]?.seq).toBe(1)
    })

    it('core.md §23: writes nothing of an event that is not lossless JSON, and names its type [core-23.lossless]', async () => {
      await begin()
      for (const bad of [
        undefined,
        NaN,
        -0,
        () => 1,
        new Date(0),
        { a: undefined },
        Object.assign([1], { length: 3 }),
        1n
      ]) {
        await expect(log.append({ session: 's', events: [note(1), note(bad, 'my/type')] })).rejects.toThrow(
          /my\/type.*lossless JSON/
        )
      }
      expect((await log.read({ session: 's', after: -1, limit: 10 })).events).toEqual([])
    })

    it('core.md §23: sources are earlier, unique, and only where they belong [core-23.citations]', async () => {
      await begin('s', 'global', [callEvent('a')])
      const append = (event: NewEvent) => log.append({ session: 's', events: [callEvent('b'), event] })
      for (const sourceEventSeqs of [[], [2], [9], [-1], [0.5], [0, 0], [{ sameAppend: 1 }], [1, { sameAppend: 0 }]]) {
        await expect(append(resultEvent('a', { sourceEventSeqs })), JSON.stringify(sourceEventSeqs)).rejects.toThrow(
          TypeError
        )
      }
      await expect(append({ ...note(1), surfaceOp: 'append' })).rejects.toThrow(TypeError)
      await expect(append({ ...note(1), sourceEventSeqs: [0] })).rejects.toThrow(TypeError)
      const [, stored] = await append(resultEvent('b', { sourceEventSeqs: [{ sameAppend: 0 }, 0] }))
      expect(stored).toMatchObject({ seq: 2, surfaceOp: 'append', sourceEventSeqs: [1, 0] })
      expect((await log.read({ session: 's', after: 1, limit: 1 })).events).toEqual([stored])
    })

    it('core.md §23: each call is recorded once, and gets at most one result [core-23.one-result]', async () => {
      await begin('s', 'global', [callEvent('a')])
      await begin('t', 'global', [callEvent('a')])
      await expect(log.append({ session: 's', events: [note(1), callEvent('a')] })).rejects.toThrow(ConflictError)
      await log.append({ session: 's', events: [resultEvent('a')] })
      await expect(log.append({ session: 's', events: [resultEvent('a')] })).rejects.toMatchObject({ table: 'events' })
      await expect(log.append({ session: 's', events: [{ type: 'tool/call', data: { name: 'x' } }] })).rejects.toThrow(
        TypeError
      )
      expect(seqs((await log.read({ session: 's', after: -1, limit: 10 })).events)).toEqual([0, 1])
    })

    it('refuses events of a session that is not there, or is of another scope', async () => {
      await begin('s', 'team')
      const unknown = { code: 'UNKNOWN_SESSION' }
      await expect(log.append({ session: 'x', events: [note(1)] })).rejects.toMatchObject(unknown)
      await expect(log.append({ session: 's', scope: 'global', events: [note(1)] })).rejects.toMatchObject(unknown)
      await expect(log.append({ events: [note(1)] })).rejects.toThrow(TypeError)
      await expect(log.append({ session: 's', scope: 'team', events: [note(1)] })).resolves.toHaveLength(1)
    })

    it('makes the rows of the append with its events, or neither', async () => {
      await begin()
      const row = {
        session: 's',
        call_id: 'c',
        name: 'x',
        args_hash: 'h',
        turn: 1,
        step: 1,
        state: 'accepted',
        accepted_at: 1
      }
      await log.append({ session: 's', events: [note(1)], writes: [{ table: 'calls', op: 'insert', row }] })
      const again: Append = {
        session: 's',
        events: [note(2)],
        writes: [
          {
            table: 'registrations',
            op: 'insert',
            row: { kind: 'k', scope: 'g', name: 'n', data: '{}', created_at: 1 }
          },
          { table: 'calls', op: 'insert', row }
        ]
      }
      await expect(log.append(again)).rejects.toMatchObject({ name: 'ConflictError', table: 'calls' })
      expect(await log.rows('registrations', {})).toEqual([])
      expect((await log.read({ session: 's', after: -1, limit: 10 })).events).toHaveLength(1)
    })

    it('one append that is refused takes none of those beside it along', async () => {
      await begin()
      const settled = await Promise.allSettled([
        log.append({ session: 's', events: [note(1)] }),
        log.append({ session: 's', events: [note(2)], writes: [sessionRow('s')] }),
        log.append({ session: 'x', events: [note(3)] }),
        log.append({ session: 's', events: [note(4)] })
      ])
      expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'fulfilled'])
      const { events } = await log.read({ session: 's', after: -1, limit: 10 })
      expect(events.map(({ seq, data }) => [seq, data])).toEqual([
        [0, 1],
        [1, 4]
      ])
    })

    it('puts, updates with a condition, deletes, and resolves seqOf', async () => {
      await begin('s', 'global', [note(0)])
      const key = { session: 's', call_id: 'c' }
      const row = { ...key, name: 'x', args_hash: 'h', turn: 1, step: 1, state: 'started', accepted_at: 1 }
      await log.append({
        session: 's',
        events: [note(1), callEvent('c')],
        writes: [{ table: 'calls', op: 'put', row: { ...row, call_seq: { seqOf: 1 } } }]
      })
      const input = JSON.stringify('é'.repeat(5000))
      await log.append({ writes: [{ table: 'calls', op: 'put', row: { ...key, duration_ms: 1.5, input } }] })
      expect(await log.rows('calls', { session: 's', state: 'started' })).toEqual([
        { ...row, call_seq: 2, result_seq: null, started_at: null, duration_ms: 1.5, input, outcome: null }
      ])
      const take = (to: string) =>
        log.append({
          writes: [{ table: 'calls', op: 'update', row: { ...key, state: to }, where: { state: 'started' } }]
        })
      const raced = await Promise.allSettled([take('done'), take('awaiting-approval'), take('accepted')])
      expect(raced.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected'])
      expect(await log.rows('calls', { state: 'done' })).toHaveLength(1)
      await log.append({ writes: [{ table: 'calls', op: 'delete', row: key }] })
      expect(await log.rows('calls', {})).toEqual([])
      await expect(
        log.append({ writes: [{ table: 'calls', op: 'put', row: { ...row, nonsense: 1 } }] })
      ).rejects.toThrow(TypeError)
      await expect(log.rows('calls', { 'state IS state OR 1': 1 })).rejects.toThrow(TypeError)
    })

    it('lists rows in order of insertion, those that match, at most the limit', async () => {
      for (const id of ['c', 'a', 'b']) await begin(id, id === 'a' ? 'team' : 'global')
      expect((await log.rows('sessions', {})).map(({ id }) => id)).toEqual(['c', 'a', 'b'])
      expect((await log.rows('sessions', { scope: 'global' }, 1)).map(({ id }) => id)).toEqual(['c'])
      expect(await log.rows('sessions', { id: 'a', cwd: null })).toEqual([
        { ...blankRows.sessions, id: 'a', scope: 'team', created_at: 1 }
      ])
    })

    it('reads by seq and by position, by type and by scope, in pages', async () => {
      await begin('a', 'one')
      await begin('b', 'two')
      for (let n = 0; n < 10; n += 1) {
        const session = n % 2 === 0 ? 'a' : 'b'
        await log.append({ session, events: [note(n, n % 3 === 0 ? 'x/three' : 'y')] })
      }
      const positions = async (query: Omit<Parameters<EventLog['read']>[0], 'limit'>, limit = 500) =>
        (await log.read({ ...query, limit })).events.map(({ position }) => position)
      expect(await positions({ session: 'a', after: 1 })).toEqual([4, 6, 8])
      expect(await positions({ after: 6 })).toEqual([7, 8, 9])
      expect(await positions({ after: -1, types: ['x/*'] })).toEqual([0, 3, 6, 9])
      expect(await positions({ after: -1, types: ['x', 'y*', 'z'], scopes: ['two'] })).toEqual([1, 5, 7])
      expect(await positions({ after: -1, types: [] })).toEqual([])
      expect(await positions({ after: -1, scopes: [] })).toEqual([])
      expect(await positions({ after: -1, scopes: ['one'], session: 'b' })).toEqual([])
      const first = await log.read({ after: -1, limit: 4, types: ['y'] })
      expect(first).toMatchObject({ head: 9, next: 5 })
      const second = await log.read({ after: first.next ?? -1, limit: 4, types: ['y'] })
      expect(second.events.map(({ position }) => position)).toEqual([7, 8])
      expect(second.next).toBeUndefined()
      expect((await log.read({ session: 'b', after: 2, limit: 1 })).head).toBe(4)
      expect(await log.read({ session: 'b', after: 99, limit: 1 })).toEqual({ events: [], head: 4 })
      expect(await log.read({ session: 'none', after: -1, limit: 1 })).toEqual({ events: [], head: -1 })
      for (const [after, limit] of [
        [-2, 1],
        [0.5, 1],
        [0, 0],
        [0, 501],
        [NaN, 1]
      ] as const) {
        await expect(log.read({ after, limit })).rejects.toThrow(RangeError)
      }
    })

    it('a page ends at its bytes, and says where to go on', async () => {
      await begin(
        's',
        'global',
        [1, 2, 3, 4].map((n) => note(String(n).repeat(1000)))
      )
      const page = await log.read({ session: 's', after: -1, limit: 100, maxBytes: 1500 })
      expect(seqs(page.events)).toEqual([0, 1])
      expect(page.next).toBe(1)
      expect(seqs((await log.read({ session: 's', after: 2, limit: 100, maxBytes: 1 })).events)).toEqual([3])
    })

    it('pruned events are gone, the rest stays, and a cursor before them learns what is oldest', async () => {
      await begin(
        's',
        'global',
        Array.from({ length: 1200 }, (_, n) => note(n))
      )
      await begin('t', 'global', [note('t')])
      await log.prune('s', 1100)
      const page = await log.read({ session: 's', after: 3, limit: 1 })
      expect(page).toMatchObject({ oldest: 1100, head: 1199 })
      expect(seqs(page.events)).toEqual([1100])
      expect(await log.read({ session: 's', after: 1099, limit: 1 })).not.toHaveProperty('oldest')
      expect(await log.read({ after: 0, limit: 1 })).toMatchObject({ oldest: 1100, head: 1200 })
      await log.prune('s', 5000)
      expect(await log.read({ session: 's', after: 1199, limit: 1 })).toEqual({ events: [], head: 1199 })
      expect(await log.append({ session: 's', events: [note('next')] })).toMatchObject([{ seq: 1200, position: 1201 }])
      await log.prune('none', 1)
    })

    it('a deleted session takes everything of it along, and its positions are not given twice', async () => {
      await begin('s', 'global', [note(1), callEvent('c')])
      const row = {
        session: 's',
        call_id: 'c',
        name: 'x',
        args_hash: 'h',
        turn: 1,
        step: 1,
        state: 'started',
        accepted_at: 1
      }
      await log.append({ writes: [{ table: 'calls', op: 'insert', row }] })
      await log.append({ writes: [{ table: 'sessions', op: 'delete', row: { id: 's' } }] })
      expect(await log.read({ after: -1, limit: 10 })).toEqual({ events: [], head: 1 })
      expect(await log.rows('calls', {})).toEqual([])
      expect(await begin('s', 'team', [callEvent('c')])).toMatchObject([{ seq: 0, position: 2, scope: 'team' }])
    })

    it('lists sessions in order of their ids, page by page, those of some scopes alone', async () => {
      for (let n = 0; n < 25; n += 1)
        await begin(`s${String((n * 7) % 25).padStart(2, '0')}`, n % 5 === 0 ? 'few' : 'many')
      await log.append({
        writes: [{ table: 'sessions', op: 'put', row: { id: 's03', turn: 4, turn_open: 1, contexts: '[]' } }]
      })
      const all = async (limit: number, scopes?: string[]) => {
        const pages: string[][] = []
        for (let after: string | undefined = ''; after !== undefined;) {
          const { rows, next }: SessionPage = await log.sessions({ after, limit, ...(scopes && { scopes }) })
          pages.push(rows.map(({ id }) => String(id)))
          after = next
        }
        return pages
      }
      const ids = Array.from({ length: 25 }, (_, n) => `s${String(n).padStart(2, '0')}`)
      expect(await all(10)).toEqual([ids.slice(0, 10), ids.slice(10, 20), ids.slice(20)])
      expect((await all(25)).flat()).toEqual(ids)
      expect((await all(2, ['few', 'none'])).flat()).toEqual(['s00', 's05', 's10', 's15', 's20'])
      expect(await all(2, [])).toEqual([[]])
      const { rows } = await log.sessions({ after: 's02', limit: 1 })
      expect(rows).toEqual([{ id: 's03', scope: 'many', cwd: null, created_at: 1, turn: 4, turn_open: 1 }])
      // A session that is gone leaves its place in the order.
      await log.append({ writes: [{ table: 'sessions', op: 'delete', row: { id: 's09' } }] })
      expect((await log.sessions({ after: 's09', limit: 1 })).rows).toMatchObject([{ id: 's10' }])
    })

    it('knows the sessions that were not brought to an end, in order', async () => {
      for (const id of ['open', 'a-call', 'b-call', 'waits', 'done', 'idle']) await begin(id)
      await log.append({ writes: [{ table: 'sessions', op: 'put', row: { id: 'open', turn: 1, turn_open: 1 } }] })
      const states = {
        'a-call': 'accepted',
        'b-call': 'started',
        waits: 'awaiting-approval',
        done: 'done',
        open: 'started'
      }
      for (const [session, state] of Object.entries(states)) {
        const row = { session, call_id: 'c', name: 'x', args_hash: 'h', turn: 1, step: 1, state, accepted_at: 1 }
        await log.append({ writes: [{ table: 'calls', op: 'insert', row }] })
      }
      expect(await log.unfinishedSessions('', 10)).toEqual(['a-call', 'b-call', 'open'])
      expect(await log.unfinishedSessions('a-call', 1)).toEqual(['b-call'])
      expect(await log.unfinishedSessions('open', 10)).toEqual([])
    })

    it('finds the last event of a type, of what is kept', async () => {
      await begin('s', 'global', [note(1), note(2, 'x'), note(3), note(4, 'y')])
      await begin('other', 'global', [note(1), note(2, 'x'), note(3, 'x')])
      expect(await Promise.all(['x', 'note', 'y', 'z'].map((type) => log.lastSeq('s', type)))).toEqual([1, 2, 3, -1])
      expect(await log.lastSeq('nobody', 'note')).toBe(-1)
      await log.prune('s', 2)
      expect(await Promise.all(['x', 'note'].map((type) => log.lastSeq('s', type)))).toEqual([-1, 2])
    })

    it('C82: exports a session for zstdcat, and an empty one as its header alone', async () => {
      await log.append({
        session: 's',
        writes: [{ ...sessionRow('s'), row: { id: 's', scope: 'team', cwd: '/tmp', created_at: 42 } }],
        events: [callEvent('c'), note('big '.repeat(100_000)), resultEvent('c', { sourceEventSeqs: [0] })]
      })
      await begin('empty')
      expect(exportedLines(await collect(log.exportSession('s')))).toEqual([
        { type: 'session', version: 0, id: 's', createdAt: 42, cwd: '/tmp', scope: 'team', delegationDepth: 0 },
        { type: 'tool/call', seq: 0, time: 7, data: { callId: 'c', name: 'x' } },
        { type: 'note', seq: 1, time: 7, data: 'big '.repeat(100_000) },
        { ...resultEvent('c'), seq: 2, sourceEventSeqs: [0] }
      ])
      expect(exportedLines(await collect(log.exportSession('empty')))).toMatchObject([{ type: 'session', id: 'empty' }])
      await expect(collect(log.exportSession('none'))).rejects.toMatchObject({ code: 'UNKNOWN_SESSION' })
    })

    it('makes what was appended durable when it closes, and takes nothing after', async () => {
      await begin()
      const states: string[] = []
      log.onState((state) => states.push(state))
      const last = log.append({ session: 's', events: [note(1)] })
      await log.close()
      expect(await last).toHaveLength(1)
      await expect(log.append({ session: 's', events: [note(2)] })).rejects.toThrow(StoreUnavailableError)
      expect(log.state).toBe('closed')
      expect(states).toEqual(['closed'])
      await log.close()
    })
  })
}

async function collect(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts = []
  for await (const chunk of chunks) parts.push(chunk)
  return Buffer.concat(parts)
}

function exportedLines(bytes: Buffer): unknown[] {
  const text = execFileSync('zstdcat', { input: bytes, maxBuffer: 64 * 1024 * 1024 }).toString()
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
}
