import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { WebSocket } from 'ws'
import { Random } from '../crash/random.ts'
import { type ServedApp, serveApp } from '../helpers/served-app.ts'
import { until } from '../helpers/until.ts'

interface Event {
  type: string
  seq: number
  position: number
  session: string
}

/** A client that can be cut off, or stop reading, at any moment, and resumes from the last event it has. */
class Resuming {
  readonly events: Event[] = []
  readonly gaps: number[] = []
  readonly errors: Record<string, unknown>[] = []
  socket: WebSocket | undefined
  readonly #served: ServedApp
  readonly #wanted: object
  readonly #cursor: (event: Event) => number

  constructor(served: ServedApp, wanted: object, cursor: (event: Event) => number) {
    this.#served = served
    this.#wanted = wanted
    this.#cursor = cursor
  }

  async connect(): Promise<void> {
    const socket = new WebSocket(`ws://127.0.0.1:${this.#served.port}/events`, 'toolwright.v1', {
      headers: { authorization: `Bearer ${this.#served.admin}` }
    })
    this.socket = socket
    socket.on('error', () => {})
    onTestFinished(() => socket.terminate())
    await once(socket, 'open')
    socket.on('message', (data: Buffer) => {
      // What a terminated socket had read ahead is not seen by anybody.
      if (this.socket !== socket) return
      const frame = JSON.parse(data.toString())
      if (frame.type === 'gap') this.gaps.push(frame.dropped)
      if (frame.type === 'error') this.errors.push(frame)
      if (frame.type === 'event' && frame.event.seq !== undefined) this.events.push(frame.event)
    })
    const last = this.events.at(-1)
    const after = last === undefined ? -1 : this.#cursor(last)
    socket.send(JSON.stringify({ type: 'subscribe', id: 'x', after, ...this.#wanted }))
  }

  drop(): void {
    const { socket } = this
    this.socket = undefined
    socket?.terminate()
  }
}

/** `count` events in batches, over sessions `s0`… */
async function fill(served: ServedApp, count: number, { sessions = 4, size = 20 } = {}): Promise<void> {
  const text = 'x'.repeat(size)
  for (let n = 0; n < count; n += 50) {
    const session = `s${(n / 50) % sessions}`
    const events = Array.from({ length: 50 }, (_, at) => ({
      type: at % 5 === 0 ? 'b/note' : 'a/note',
      data: { n: n + at, text }
    }))
    await served.app.eventLog.append({ session, events })
  }
}

async function withSessions(settings: Record<string, string> = {}, count = 4): Promise<ServedApp> {
  const served = await serveApp({ 'store.ballastBytes': '0', ...settings }, { isDurable: true })
  for (let n = 0; n < count; n += 1) await served.append(`s${n}`, 'a/first')
  return served
}

describe('subscribers over real sockets', () => {
  it('R2, F71: 20 clients that are cut off and stall at random see each of 10,000 events once and in order', async () => {
    const seed = Date.now() % 1_000_000
    console.log(`seed ${seed}`)
    const random = new Random(seed)
    const served = await withSessions()
    const byPosition = ({ position }: Event) => position
    const bySeq = ({ seq }: Event) => seq
    const clients = Array.from({ length: 20 }, (_, n) => {
      if (n % 4 === 1) return new Resuming(served, { session: 's1' }, bySeq)
      if (n % 4 === 2) return new Resuming(served, { session: 's2', events: ['b/*'] }, bySeq)
      return new Resuming(served, n % 4 === 3 ? { events: ['b/*', 'a/first'] } : {}, byPosition)
    })
    await Promise.all(clients.map((client) => client.connect()))
    const filling = { now: true }
    const filled = fill(served, 10_000).finally(() => (filling.now = false))
    await Promise.all(
      clients.map(async (client) => {
        while (filling.now) {
          await wait(random.between(1, 60))
          if (random.next() < 0.3) client.socket?.pause()
          await wait(random.between(1, 40))
          client.drop()
          await client.connect()
        }
      })
    )
    await filled
    const all = (await readAll(served)).map(({ session, seq, position, type }) => ({ session, seq, position, type }))
    expect(all).toHaveLength(10_004)
    const wanted: ((event: Event) => boolean)[] = [
      () => true,
      ({ session }) => session === 's1',
      ({ session, type }) => session === 's2' && type.startsWith('b/'),
      ({ type }) => type.startsWith('b/') || type === 'a/first'
    ]
    for (const [n, client] of clients.entries()) {
      const expected = all.filter(wanted[n % 4] as (event: Event) => boolean).map(byPosition)
      await until(() => client.events.length >= expected.length)
      expect(client.errors).toEqual([])
      expect(client.events.map(byPosition)).toEqual(expected)
    }
  }, 120_000)

  it('F35: attached 20 times at random moments, each replays the same from the start', async () => {
    const random = new Random(35)
    const served = await withSessions()
    const filled = fill(served, 4000)
    const clients = await Promise.all(
      Array.from({ length: 20 }, async () => {
        await wait(random.between(0, 200))
        const client = new Resuming(served, { session: 's3' }, ({ seq }) => seq)
        await client.connect()
        return client
      })
    )
    await filled
    const { head } = await served.app.eventLog.read({ session: 's3', after: -1, limit: 1 })
    const first = clients[0] as Resuming
    for (const client of clients) {
      await until(() => client.events.length === head + 1)
      expect(client.events).toEqual(first.events)
    }
  }, 60_000)

  it('F31, F21: a cursor past the end loses nothing, a malformed one is refused, and a short page says that there is more', async () => {
    const served = await withSessions()
    const page = async (query: string) => {
      const answer = await served.call(`/sessions/s0/events?${query}`)
      return { status: answer.status, body: (await answer.json()) as { events: Event[]; head: number; next?: number } }
    }
    expect(await page('after=999999')).toMatchObject({ status: 200, body: { events: [], head: 0 } })
    for (const after of ['abc', '-2', '1.5', '', '99999999999999999999']) {
      expect([after, (await page(`after=${after}`)).status]).toEqual([after, 400])
    }
    await fill(served, 50, { sessions: 1 })
    // What came after such a cursor was asked for is found from the head that was told.
    expect((await page('after=0')).body.events.map(({ seq }) => seq)).toEqual(
      Array.from({ length: 50 }, (_, n) => n + 1)
    )
    const short = await page('after=-1&limit=3')
    expect(short.body).toMatchObject({ next: 2, head: 50 })
    const last = await page('after=47&limit=3')
    expect(last.body.events).toHaveLength(3)
    expect(last.body.next).toBeUndefined()
  })

  it('F71: a cursor that retention took is told so, over the socket, the stream and the pages', async () => {
    const served = await withSessions()
    await fill(served, 200, { sessions: 1 })
    await served.app.eventLog.prune('s0', 100)
    const client = new Resuming(served, { session: 's0', after: 5 }, ({ seq }) => seq)
    await client.connect()
    await until(() => client.errors.length > 0)
    expect(client.errors).toMatchObject([{ code: 'CURSOR_EXPIRED', oldest: 100 }])
    const headers = { accept: 'text/event-stream', 'last-event-id': '5' }
    const stream = await served.call('/events?session=s0', { headers })
    expect([stream.status, ((await stream.json()) as any).error.code]).toEqual([410, 'CURSOR_EXPIRED'])
    const from = new Resuming(served, { session: 's0', after: 99 }, ({ seq }) => seq)
    await from.connect()
    await until(() => from.events.length === 101)
    expect(from.events[0]?.seq).toBe(100)
    expect((await served.call('/sessions/s0/events?after=5')).status).toBe(410)
    const all = await served.call('/sessions/s0/events?after=-1')
    expect(((await all.json()) as { events: Event[] }).events[0]?.seq).toBe(100)
  })

  it('R3: 500 stalled sockets hold no more than their buffers, and one that reads gets everything meanwhile', async () => {
    const highWater = 64 * 1024
    const sockets = 500
    const served = await withSessions({
      'ws.highWaterBytes': String(highWater),
      'ws.maxSockets': '2000',
      'ws.maxSocketsPerToken': '2000'
    })
    const stalled = await Promise.all(
      Array.from({ length: sockets }, async () => {
        const client = new Resuming(served, {}, ({ position }) => position)
        await client.connect()
        return client
      })
    )
    await until(() => served.app.fanOut.size === sockets)
    for (const { socket } of stalled) socket?.pause()
    const reader = new Resuming(served, {}, ({ position }) => position)
    await reader.connect()
    // 9 MB for each: the kernel's own buffers take 6 of them at most.
    const text = randomBytes(45_000).toString('hex')
    for (let n = 0; n < 100; n += 1) {
      await served.app.eventLog.append({ session: 's0', events: [{ type: 'a/note', data: text }] })
    }
    await until(() => reader.events.length >= 104, 60_000)
    expect(reader.events.map(({ position }) => position)).toEqual(Array.from({ length: 104 }, (_, n) => n))
    const buffered = [...served.app.websocketServer.clients].map(({ bufferedAmount }) => bufferedAmount)
    expect(Math.max(...buffered)).toBeGreaterThan(highWater / 2)
    // What crossed the high water, and no more.
    expect(Math.max(...buffered)).toBeLessThan(highWater + 100 * 1024)
  }, 120_000)
})

async function readAll(served: ServedApp): Promise<Event[]> {
  const events: Event[] = []
  for (let after: number | undefined = -1; after !== undefined;) {
    const page = await served.app.eventLog.read({ after, limit: 500 })
    events.push(...page.events)
    after = page.next
  }
  return events
}
