import * as fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { EventLog, StoredEvent } from '../../server/event-log/event-log.ts'
import { openMemoryLog } from '../../server/event-log/memory-log.ts'
import { openSqliteLog } from '../../server/event-log/sqlite/log.ts'
import { EventBus } from '../../server/events/bus.ts'
import { FanOut } from '../../server/events/fan-out.ts'
import { eventStreamFrames, webSocketFrames } from '../../server/events/frames.ts'
import type { SubscriptionRequest } from '../../server/events/subscription.ts'
import { testSink } from '../helpers/frame-sink.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { until } from '../helpers/until.ts'

const addSession = (log: EventLog, id: string, scope = 'global') =>
  log.append({ session: id, writes: [{ table: 'sessions', op: 'insert', row: { id, scope, created_at: 1 } }] })
const note = (log: EventLog, session: string, data: string | number, type = 'note') =>
  log.append({ session, events: [{ type, data }] })
const eventsOf = (frames: any[]) => frames.filter(({ type }) => type === 'event').map(({ event }) => event)

describe('a subscription', () => {
  let log: EventLog
  let bus: EventBus
  let fanOut: FanOut

  beforeEach(() => {
    log = openMemoryLog()
    bus = new EventBus()
    fanOut = new FanOut({ log, bus })
  })
  afterEach(async () => {
    fanOut.close()
    await log.close()
  })

  const open = async (request: SubscriptionRequest = {}, sink = testSink(), id = 'a') => {
    const subscription = await fanOut.subscribe(request, sink, webSocketFrames(id))
    return { sink, subscription }
  }

  it('says subscribed, then what is stored after its cursor, then what comes, with its id', async () => {
    await addSession(log, 's')
    for (let n = 0; n < 5; n += 1) await note(log, 's', n)
    const { sink } = await open({ after: 1 }, testSink(), 'quote"d')
    await until(() => sink.frames.length === 4)
    await note(log, 's', 5)
    expect(sink.frames[0]).toEqual({ type: 'subscribed', id: 'quote"d', head: 4, logId: log.logId })
    expect(sink.frames[1]).toEqual({
      type: 'event',
      id: 'quote"d',
      event: { type: 'note', session: 's', scope: 'global', seq: 2, position: 2, time: expect.any(Number), data: 2 }
    })
    expect(eventsOf(sink.frames).map(({ data }) => data)).toEqual([2, 3, 4, 5])
  })

  it('is live only without a cursor, and -1 replays all', async () => {
    await addSession(log, 's')
    await note(log, 's', 'before')
    const [live, all, inSession] = [await open(), await open({ after: -1 }), await open({ session: 's' })]
    await note(log, 's', 'after')
    await until(() => eventsOf(all.sink.frames).length === 2)
    expect(eventsOf(live.sink.frames).map(({ data }) => data)).toEqual(['after'])
    expect(eventsOf(inSession.sink.frames).map(({ data }) => data)).toEqual(['after'])
    expect(inSession.sink.frames[0]).toMatchObject({ type: 'subscribed', head: 0 })
  })

  it('hears of its session, its scopes and its types alone, stored and live', async () => {
    await addSession(log, 'a', 'one')
    await addSession(log, 'b', 'two')
    const scopes = new Set(['one'])
    const visible = await open({ after: -1, scopes: { has: (id) => scopes.has(id), ids: () => [...scopes] } })
    const ofB = await open({ session: 'b', after: -1 })
    const typed = await open({ after: -1, events: ['x/*', 'tool/progress'] })
    for (const session of ['a', 'b'])
      for (const type of ['x/1', 'y']) await note(log, session, `${session} ${type}`, type)
    bus.publish('tool/progress', { session: 'a', scope: 'one', callId: 'c', name: 'n', chunk: 1 })
    bus.publish('tool/progress', { session: 'b', scope: 'two', callId: 'c', name: 'n', chunk: 2 })
    bus.publish('tools/change', {})
    const summary = (frames: any[]) => eventsOf(frames).map(({ type, session }) => `${type} ${session ?? '-'}`)
    await until(() => eventsOf(typed.sink.frames).length === 4)
    expect(summary(visible.sink.frames)).toEqual(['x/1 a', 'y a', 'tool/progress a', 'tools/change -'])
    expect(summary(ofB.sink.frames)).toEqual(['x/1 b', 'y b', 'tool/progress b', 'tools/change -'])
    expect(summary(typed.sink.frames)).toEqual(['x/1 a', 'x/1 b', 'tool/progress a', 'tool/progress b'])
    scopes.add('two')
    await note(log, 'b', 'now visible', 'y')
    expect(summary(visible.sink.frames).at(-1)).toBe('y b')
  })

  it('a live event has no seq, and carries whom it concerns', async () => {
    const { sink } = await open()
    bus.publish('tool/progress', { session: 's', scope: 'g', callId: 'c', name: 'bash', chunk: 'é' })
    expect(sink.frames[1]).toEqual({
      type: 'event',
      id: 'a',
      event: {
        type: 'tool/progress',
        session: 's',
        scope: 'g',
        time: expect.any(Number),
        data: { session: 's', scope: 'g', callId: 'c', name: 'bash', chunk: 'é' }
      }
    })
  })

  it('LOG_RESET: a cursor of another log, or beyond the end', async () => {
    await addSession(log, 's')
    await note(log, 's', 1)
    const reset = { code: 'LOG_RESET', details: { logId: log.logId, head: 0 } }
    await expect(open({ after: 0, logId: 'other' })).rejects.toMatchObject(reset)
    await expect(open({ after: 1 })).rejects.toMatchObject(reset)
    await expect(open({ session: 's', after: 7, logId: log.logId })).rejects.toMatchObject(reset)
    await open({ after: 0, logId: log.logId })
    expect(fanOut.size).toBe(1)
  })

  it('F71: CURSOR_EXPIRED: a cursor before what is kept; -1 replays what is kept', async () => {
    await addSession(log, 's')
    for (let n = 0; n < 10; n += 1) await note(log, 's', n)
    await log.prune('s', 6)
    for (const request of [{ session: 's', after: 3 }, { after: 3 }]) {
      await expect(open(request)).rejects.toMatchObject({ code: 'CURSOR_EXPIRED', details: { oldest: 6 } })
    }
    await open({ session: 's', after: 5 })
    for (const request of [{ session: 's', after: -1 }, { after: -1 }]) {
      const { sink } = await open(request)
      await until(() => eventsOf(sink.frames).length === 4)
    }
  })

  it('a subscriber that fell behind retention is told, and ended', async () => {
    await addSession(log, 's')
    const { sink } = await open({ session: 's', after: -1 }, testSink(100))
    sink.stall()
    for (let n = 0; n < 10; n += 1) await note(log, 's', 'x'.repeat(60))
    await log.prune('s', 9)
    sink.resume()
    await until(() => fanOut.size === 0)
    expect(sink.frames.at(-1)).toEqual({ type: 'error', id: 'a', code: 'CURSOR_EXPIRED', oldest: 9 })
  })

  it('one that heard of everything lacks nothing when what it passed over is pruned', async () => {
    for (const session of ['s', 'busy']) await addSession(log, session)
    const requests: SubscriptionRequest[] = [{ events: ['rare'] }, { session: 's' }]
    const heard = await Promise.all(requests.map((request) => open({ ...request, after: -1 }, testSink(100))))
    await until(() => heard.every(({ sink }) => sink.frames.length === 1))
    // Their first reads are over as well.
    await note(log, 's', 'begin', 'rare')
    for (const { sink } of heard) await until(() => eventsOf(sink.frames).length === 1)
    for (let n = 0; n < 10; n += 1) await note(log, 'busy', n)
    await log.prune('busy', 8)
    for (const { sink } of heard) {
      sink.stall()
      sink.sendText(JSON.stringify({ filler: 'x'.repeat(200) }))
    }
    for (let n = 0; n < 5; n += 1) await note(log, 's', n, 'rare')
    for (const { sink } of heard) sink.resume()
    for (const { sink } of heard) {
      await until(() => eventsOf(sink.frames).length === 6)
      expect(sink.frames.filter(({ type }) => type === 'error')).toEqual([])
    }
  })

  it('R3: many subscriptions of one stalled sink hold no more than its buffer and a page', async () => {
    await addSession(log, 's')
    const text = 'x'.repeat(50_000)
    for (let n = 0; n < 100; n += 1) await note(log, 's', `${n} ${text}`)
    const sink = testSink()
    sink.stall()
    for (let n = 0; n < 20; n += 1) await fanOut.subscribe({ after: -1 }, sink, webSocketFrames(`s${n}`))
    await until(() => sink.isBackedUp)
    // Each of the others has had the time to read its page, and to give it.
    for (let n = 0; n < 50; n += 1) await new Promise((resolve) => setImmediate(resolve))
    expect(sink.mostBuffered).toBeLessThan(1024 * 1024 + 320 * 1024)
    // From now on it takes what it is given, a buffer at a time.
    await until(() => {
      sink.drain()
      return eventsOf(sink.frames).length === 2000
    })
    expect(sink.mostBuffered).toBeLessThan(1024 * 1024 + 320 * 1024)
    for (let n = 0; n < 20; n += 1) {
      const seqs = sink.frames
        .filter(({ type, id }) => type === 'event' && id === `s${n}`)
        .map(({ event }) => event.seq)
      expect(seqs).toEqual(Array.from({ length: 100 }, (_, seq) => seq))
    }
  })

  it('a gap is told also when others fill the sink first, and nothing comes after it', async () => {
    const sink = testSink(100)
    await fanOut.subscribe({ events: ['tools/change'] }, sink, webSocketFrames('quiet'))
    sink.stall()
    sink.sendText(JSON.stringify({ filler: 'x'.repeat(200) }))
    bus.publish('tools/change', {})
    bus.publish('tools/change', {})
    // Whoever waited longest fills the sink again as soon as it is writable.
    sink.onWritable(() => sink.sendText(JSON.stringify({ filler: 'x'.repeat(200) })))
    sink.drain()
    await new Promise((resolve) => setImmediate(resolve))
    expect(sink.frames.filter(({ type }) => type === 'gap')).toEqual([])
    sink.drain()
    await until(() => sink.frames.some(({ type }) => type === 'gap'))
    expect(sink.frames.filter(({ type }) => type === 'gap')).toEqual([{ type: 'gap', id: 'quiet', dropped: 2 }])
  })

  it('R3: a stalled subscriber holds no more than its buffer and a page, and gets everything in order when it reads on', async () => {
    await addSession(log, 's')
    const slow = await open({ after: -1 })
    const fast = await open({ after: -1 })
    slow.sink.stall()
    const text = 'x'.repeat(100_000)
    for (let n = 0; n < 300; n += 1) await note(log, 's', `${n} ${text}`)
    for (let n = 0; n < 50; n += 1) bus.publish('tools/change', {})
    expect(slow.sink.mostBuffered).toBeLessThan(2.5 * 1024 * 1024)
    expect(eventsOf(fast.sink.frames)).toHaveLength(350)
    slow.sink.resume()
    await until(() => eventsOf(slow.sink.frames).length === 300)
    expect(eventsOf(slow.sink.frames).map(({ seq }) => seq)).toEqual(Array.from({ length: 300 }, (_, n) => n))
    expect(slow.sink.frames.filter(({ type }) => type === 'gap')).toEqual([{ type: 'gap', id: 'a', dropped: 50 }])
  })

  it('serialises an event and asks for its view once, however many hear of it', async () => {
    let views = 0
    const own = new FanOut({ log, bus, viewOf: () => ({ card: (views += 1) }) })
    await addSession(log, 's')
    const sinks = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const sink = testSink()
        await own.subscribe({}, sink, webSocketFrames('same'))
        return sink
      })
    )
    await until(() => sinks.every((sink) => sink.frames.length === 1))
    await note(log, 's', 1)
    for (const sink of sinks) expect(eventsOf(sink.frames)).toMatchObject([{ data: 1, view: { card: 1 } }])
    own.close()
  })

  it('a presenter or a sink that throws takes nothing from the others', async () => {
    const own = new FanOut({
      log,
      bus,
      viewOf: () => {
        throw new Error('presenter')
      }
    })
    await addSession(log, 's')
    const broken = testSink()
    await own.subscribe({}, broken, webSocketFrames('broken'))
    const sound = testSink()
    await own.subscribe({}, sound, webSocketFrames('sound'))
    await until(() => own.size === 2)
    broken.sendText = () => {
      throw new Error('gone')
    }
    await note(log, 's', 1)
    await note(log, 's', 2)
    expect(eventsOf(sound.frames).map(({ data }) => data)).toEqual([1, 2])
    expect(own.size).toBe(1)
    own.close()
  })

  it('an event that a read brought before its commit was told of is not sent twice', async () => {
    const told: (() => void)[] = []
    const late: EventLog = Object.assign(Object.create(log) as EventLog, {
      logId: log.logId,
      read: (query: Parameters<EventLog['read']>[0]) => log.read(query),
      onCommit: (listener: (events: readonly StoredEvent[]) => void) =>
        log.onCommit((events) => told.push(() => listener(events)))
    })
    const own = new FanOut({ log: late, bus })
    await addSession(log, 's')
    await note(log, 's', 'early')
    const sink = testSink()
    await own.subscribe({ after: -1 }, sink, webSocketFrames('a'))
    await until(() => eventsOf(sink.frames).length === 1)
    for (const tell of told) tell()
    await note(log, 's', 'next')
    told.at(-1)?.()
    expect(eventsOf(sink.frames).map(({ data }) => data)).toEqual(['early', 'next'])
    own.close()
  })

  it('after its close it is silent', async () => {
    await addSession(log, 's')
    const { sink, subscription } = await open({ after: -1 })
    subscription.close()
    subscription.close()
    await note(log, 's', 1)
    bus.publish('tools/change', {})
    expect(eventsOf(sink.frames)).toEqual([])
    expect(fanOut.size).toBe(0)
  })

  it('api.md §5: the same as Server-Sent Events, with ids to resume from', async () => {
    await addSession(log, 's')
    await note(log, 's', 1)
    const text: string[] = []
    const sink = { sendText: (frame: string) => text.push(frame), isBackedUp: false, whenWritable: async () => {} }
    await fanOut.subscribe({ after: -1 }, sink, eventStreamFrames)
    await until(() => text.length === 2)
    bus.publish('tools/change', {})
    expect(text[0]).toMatch(/^event: subscribed\ndata: \{"head":0,.*\}\n\n$/)
    expect(text[1]).toMatch(/^id: 0\ndata: \{"type":"note",.*\}\n\n$/)
    expect(text[2]).toMatch(/^data: \{"type":"tools\/change",.*\}\n\n$/)
  })
})

const steps = fc.array(
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        do: fc.constant('append' as const),
        session: fc.constantFrom('a', 'b'),
        size: fc.nat(400)
      })
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('stall' as const) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('resume' as const) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('live' as const) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('reconnect' as const) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('settle' as const) }) }
  ),
  { maxLength: 60 }
)

describe.each([
  ['memory', () => Promise.resolve(openMemoryLog())],
  ['SQLite', () => openSqliteLog({ directory: temporaryDirectory(), ballastBytes: 0 })]
] as const)('R2, F71: over the %s log', (_, openLog) => {
  it('sees each event exactly once and in order, whatever stalls, disconnects and appends come together', async () => {
    const log = await openLog()
    const bus = new EventBus()
    const fanOut = new FanOut({ log, bus })
    let runs = 0
    await fc.assert(
      fc.asyncProperty(steps, fc.boolean(), async (steps, bySession) => {
        const run = (runs += 1)
        const name = (session: string) => `${session}${run}`
        for (const session of ['a', 'b']) await addSession(log, name(session))
        const sink = testSink(1000)
        const base: SubscriptionRequest = bySession ? { session: name('a') } : {}
        const at = (event: any) => (bySession ? event.seq : event.position)
        const start = bySession ? -1 : log.head
        const lastSeen = () =>
          Math.max(
            start,
            ...eventsOf(sink.frames)
              .filter((event) => 'seq' in event)
              .map(at)
          )
        const connect = () =>
          fanOut.subscribe({ ...base, after: lastSeen(), logId: log.logId }, sink, webSocketFrames('x'))
        let subscription = await connect()
        const appends: Promise<unknown>[] = []
        for (const step of steps) {
          if (step.do === 'append') appends.push(note(log, name(step.session), 'x'.repeat(step.size)))
          else if (step.do === 'stall') sink.stall()
          else if (step.do === 'resume') sink.resume()
          else if (step.do === 'live') bus.publish('tools/change', {})
          else if (step.do === 'settle') await Promise.all(appends)
          else {
            subscription.close()
            subscription = await connect()
          }
        }
        await Promise.all(appends)
        sink.resume()
        const expected = steps.filter((step) => step.do === 'append' && (!bySession || step.session === 'a')).length
        const seen = () => eventsOf(sink.frames).filter((event) => 'seq' in event)
        await until(() => seen().length >= expected)
        const positions = seen().map(at)
        expect(positions).toEqual(Array.from({ length: expected }, (__, n) => start + 1 + n))
        const live = eventsOf(sink.frames).filter((event) => !('seq' in event)).length
        const dropped = sink.frames.filter(({ type }) => type === 'gap').reduce((sum, gap) => sum + gap.dropped, 0)
        expect(live + dropped).toBeLessThanOrEqual(steps.filter((step) => step.do === 'live').length)
        subscription.close()
      }),
      { numRuns: 60 }
    )
    expect(fanOut.size).toBe(0)
    await log.close()
  }, 60_000)
})
