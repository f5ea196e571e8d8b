import { readFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { join, resolve } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { openSqliteLog } from '../../server/event-log/sqlite/log.ts'
import { verifyLog } from '../../server/event-log/sqlite/verify-log.js'
import { Random } from '../crash/random.ts'
import { alive, descendantsOf } from '../crash/server-process.ts'
import { HomeApp } from '../helpers/home-app.ts'
import { RunningServer } from '../helpers/running-server.ts'
import { EventClient } from '../helpers/served-app.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { until } from '../helpers/until.ts'

const witness = resolve(import.meta.dirname, '../crash/witness-plugin.js')
const rounds = Number(process.env['SHUTDOWN_ROUNDS'] ?? 1)
const token = 'a-token-of-the-test'
/** Long: an end that is late on a busy machine is not one that never comes. */
const killMs = 20_000

interface Answer {
  status: number
  retryAfter: string | undefined
  body: any
}

/** What became of one request with calls: its answer, or the error of its connection. */
interface Outcome {
  callIds: string[]
  answer?: Answer
  error?: string
}

/** A connection for each request, so that one that is refused cannot be taken for one that was dropped. */
function post(url: string, path: string, json: unknown, headers: Record<string, string> = {}): Promise<Answer> {
  return new Promise((done, fail) => {
    const sent = httpRequest(`${url}${path}`, {
      method: 'POST',
      agent: false,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers }
    })
    sent.on('error', fail)
    sent.on('response', (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', fail)
      response.on('end', () => {
        const body: unknown = JSON.parse(Buffer.concat(chunks).toString())
        done({ status: response.statusCode ?? 0, retryAfter: response.headers['retry-after'], body })
      })
    })
    sent.end(JSON.stringify(json))
  })
}

/** Requests of all kinds from several sides, until the server takes none any more. */
class Load {
  readonly outcomes: Outcome[] = []
  readonly #random: Random
  readonly #url: string
  #count = 0

  constructor(url: string, random: Random) {
    this.#url = url
    this.#random = random
  }

  get answered(): number {
    return this.outcomes.filter(({ answer }) => answer?.status === 200).length
  }

  /** A call that is still running when the drain is over: there is a time in which others are refused. */
  async hold(): Promise<void> {
    const call = this.#call(0.85)
    await this.#note([call], '/invoke', { session: 's-held', ...call })
  }

  async lane(): Promise<void> {
    while (await this.#send()) {
      // A refused caller comes back later.
      if (this.outcomes.at(-1)?.answer?.status === 503) await wait(20)
    }
  }

  async #send(): Promise<boolean> {
    const dice = this.#random.next()
    const session = `s-${this.#random.between(0, 3)}`
    if (dice < 0.2) {
      const calls = Array.from({ length: 3 }, () => this.#call(this.#random.next() * 0.7))
      return this.#note(calls, '/invoke/batch', { session, calls })
    }
    const call = this.#call(dice)
    const headers: Record<string, string> = dice > 0.95 ? { prefer: 'respond-async' } : {}
    return this.#note([call], '/invoke', { session, ...call }, headers)
  }

  #call(dice: number): { callId: string; name: string; arguments: object } {
    const callId = `c-${(this.#count += 1)}`
    const bash = (command: string, more: object = {}) => ({
      ...{ callId, name: 'bash', arguments: { command, description: 'x', ...more } }
    })
    if (dice > 0.95) return { callId, name: 'note_asked', arguments: { text: callId } }
    if (dice > 0.9) return bash('setsid sleep 300 >/dev/null 2>&1 & sleep 0.2')
    if (dice > 0.87) return bash('sleep 300', { run_in_background: true })
    // Longer than the drain lasts.
    if (dice > 0.84) return bash('trap "" TERM; sleep 60')
    return {
      callId,
      name: dice > 0.75 ? 'note_alone' : 'note',
      arguments: { text: callId, ms: this.#random.pick([0, 3, 40, 300]) }
    }
  }

  /** Whether there is still somebody to send to. */
  async #note(
    calls: { callId: string }[],
    path: string,
    json: unknown,
    headers: Record<string, string> = {}
  ): Promise<boolean> {
    const outcome: Outcome = { callIds: calls.map(({ callId }) => callId) }
    try {
      outcome.answer = await post(this.#url, path, json, headers)
    } catch (error) {
      outcome.error = String((error as { code?: string }).code ?? error)
    }
    this.outcomes.push(outcome)
    return outcome.error === undefined
  }
}

interface Logged {
  calls: Set<string>
  results: Set<string>
  waiting: Set<string>
}

/** What the log holds of calls, read as the next server would. */
async function readLog(home: string): Promise<Logged> {
  const log = await openSqliteLog({ directory: home, synchronous: 'full', ballastBytes: 0 })
  const [calls, results] = [new Set<string>(), new Set<string>()]
  for (let after: number | undefined = -1; after !== undefined;) {
    const page: Awaited<ReturnType<typeof log.read>> = await log.read({ after, limit: 500 })
    for (const { type, data } of page.events as { type: string; data: any }[]) {
      if (type === 'tool/call') calls.add(data.callId)
      if (type === 'tool/result') results.add(data.message.source.callId)
    }
    after = page.next
  }
  const rows = await log.rows('calls', {}, 100_000)
  const waiting = new Set(
    rows.filter(({ state }) => state === 'awaiting-approval').map((row) => String(row['call_id']))
  )
  await log.close()
  return { calls, results, waiting }
}

it.each(Array.from({ length: rounds }, (_, round) => round))(
  'R5 SIGTERM under load, round %i: who was let in is answered, nothing is left open, in the log or among the processes',
  async (round) => {
    const place = temporaryDirectory()
    const home = join(place, 'data')
    const seed = Number(process.env['SHUTDOWN_SEED'] ?? Math.trunc(Math.random() * 2 ** 31))
    const random = new Random(seed)
    // In a long run also drains that take longer than a framework's patience.
    const drainMs = round % 5 === 4 ? 12_000 : 1_000
    const server = await RunningServer.start(
      place,
      {
        ...{ plugins: [witness], drain: { drainMs, killMs }, shell: { graceMs: 500 }, presentation: { mode: 'both' } },
        // Nothing is to be refused but for the shutdown, however busy the machine.
        shedding: { maxLoopDelayMs: 0 }
      },
      { env: { CRASH_BODIES: join(place, 'bodies') } }
    )
    const client = new EventClient(Number(new URL(server.url).port), token)
    await until(() => client.socket.readyState === client.socket.OPEN)
    client.send({ type: 'subscribe', id: 'a', after: -1 })
    const stream = await fetch(`${server.url}/events?after=-1`, { headers: { authorization: `Bearer ${token}` } })
    const streamed = stream.text()
    await post(server.url, '/invoke', { session: 't', name: 'terminal_open', arguments: { type: 'shell' } })

    const load = new Load(server.url, random)
    const lanes = [load.hold(), ...Array.from({ length: 10 }, () => load.lane())]
    await until(() => load.answered > 30 + random.between(0, 30), 60_000)
    const family = descendantsOf(server.pid)
    expect(family.length).toBeGreaterThan(0)
    const code = await Promise.race([
      server.end('SIGTERM'),
      wait(drainMs + 2 * killMs + 60_000, 'it does not end', { ref: false })
    ])
    expect([seed, code]).toEqual([seed, 0])
    await Promise.all(lanes)
    expect(await client.closed).toBe(1001)
    expect(await streamed).toContain('tool/result')
    await until(() => alive(family).length === 0)

    const { calls, results, waiting } = await readLog(home)
    // An approval outlives the server with its call; nothing else is open.
    expect([...calls].filter((callId) => !results.has(callId) && !waiting.has(callId))).toEqual([])
    expect(verifyLog(home).damagedSessions).toEqual([])
    for (const { callIds, answer, error } of load.outcomes) {
      const known = callIds.filter((callId) => calls.has(callId) || results.has(callId) || waiting.has(callId))
      // Nobody whose call was taken was left without an answer.
      if (error !== undefined) expect([seed, error, known]).toEqual([seed, error, []])
      else if (answer?.status === 200 || answer?.status === 202) expect(known).toEqual(callIds)
      else expect([answer?.status, answer?.body.error.code, answer?.retryAfter]).toEqual([503, 'SHUTTING_DOWN', '1'])
    }
    const errors = new Set(load.outcomes.flatMap(({ error }) => error ?? []))
    expect([...errors].filter((error) => error !== 'ECONNREFUSED' && error !== 'ECONNRESET')).toEqual([])
    expect(load.outcomes.some(({ answer }) => answer?.status === 503)).toBe(true)
    expect(readFileSync(join(place, 'bodies'), 'utf8').split('\n').length).toBeGreaterThan(10)
  },
  240_000
)

it('R5 the server waits for its own drain as long as that may take', async () => {
  const { app } = await HomeApp.start({ 'drain.drainMs': '100000', 'drain.killMs': '7000', 'drain.preStopMs': '5000' })
  expect(app.initialConfig.pluginTimeout).toBeGreaterThan(119_000)
})
