import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { HomeApp, outcome } from '../helpers/home-app.ts'
import { until } from '../helpers/until.ts'

const day = 86_400_000

/** A server with a scope `team` that has `a` and `b` below it. */
async function start(settings: Record<string, string> = {}, tools: string[] = ['probe']): Promise<HomeApp> {
  const home = await HomeApp.start(settings, tools)
  await home.ask('PUT', '/scopes/team', {})
  for (const id of ['a', 'b']) await home.ask('PUT', `/scopes/${id}`, { parent: 'team' })
  return home
}

const call = (home: HomeApp, scope: string, more: object = {}, token?: string) =>
  home.ask('POST', '/invoke', { scope, name: 'probe', ...more }, token === undefined ? {} : { token })

const limitsOf = async (home: HomeApp, scope: string, token?: string) =>
  (await home.ask('GET', `/limits?scope=${scope}`, undefined, token === undefined ? {} : { token })).body.limits as {
    limit: string
    scope?: string
    value: number
    used?: number
    source: string
  }[]

/** What is used of the rate of a scope. */
const used = async (home: HomeApp, scope: string): Promise<number> =>
  (await limitsOf(home, scope)).find((each) => each.limit === 'scope.rate' && each.scope === scope)?.used ?? -1

const badBodies: [what: string, body: string][] = [
  ['a list', '[]'],
  ['another key', '{"burst":1}'],
  ['a negative concurrency', '{"concurrency":-1}'],
  ['a fraction', '{"concurrency":0.5}'],
  ['a number as text', '{"queue":"1"}'],
  ['beyond what counts', '{"queue":1e300}'],
  ['a rate without its time', '{"rates":[{"requests":1}]}'],
  ['a rate of nothing', '{"rates":[{"requests":0,"perMs":1000}]}'],
  ['a time of nothing', '{"rates":[{"requests":1,"perMs":0}]}'],
  ['a time longer than a month', '{"rates":[{"requests":1,"perMs":1e13}]}'],
  ['too many rates', JSON.stringify({ rates: [1, 2, 3, 4, 5].map((perMs) => ({ requests: 1, perMs })) })],
  [
    'too many tools',
    JSON.stringify({ tools: Object.fromEntries(Array.from({ length: 101 }, (_, i) => [`t${i}`, {}])) })
  ],
  ['a tool with no name', '{"tools":{"":{}}}'],
  ['a tool with a bad name', '{"tools":{"a b":{}}}'],
  ['a poison key', '{"tools":{"__proto__":{"concurrency":0}}}'],
  ['a tool of a tool', '{"tools":{"a":{"tools":{}}}}']
]

describe('PUT /scopes/{scope}/limits, GET /limits', () => {
  it('a limit that is set holds at once for all below; a refusal says which, logs nothing and uses up no callId', async () => {
    const home = await start()
    const set = { rates: [{ requests: 2, perMs: day }], queue: 7 }
    const put = await home.ask('PUT', '/scopes/team/limits', set)
    expect([put.status, put.body]).toEqual([200, set])
    expect((await call(home, 'a')).status).toBe(200)
    expect((await call(home, 'b', { session: 's-b' })).status).toBe(200)

    const refused = await call(home, 'a', { callId: 'refused-call' })
    expect(outcome(refused)).toBe('429 RATE_LIMITED')
    expect(refused.body.error.details).toMatchObject({ limit: 'scope.rate', value: 2, perMs: day, scope: 'team' })
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(40_000)
    expect(outcome(await call(home, 'a', { session: 'new', callId: 'refused-call' }))).toBe('429 RATE_LIMITED')
    expect(outcome(await home.ask('GET', '/sessions/new'))).toBe('404 UNKNOWN_SESSION')
    const { body: log } = await home.ask('GET', '/sessions/a:default/events?after=-1')
    expect(JSON.stringify(log.events)).not.toContain('refused-call')

    expect((await home.ask('PUT', '/scopes/team/limits', {})).body).toEqual({})
    const later = await call(home, 'a', { callId: 'refused-call' })
    expect([later.status, later.body.replayed]).toEqual([200, undefined])
  })

  it('a batch is one request, and so is each tool in it; what is replayed or attached is none', async () => {
    const home = await start()
    const rates = [{ requests: 2, perMs: day }]
    await home.ask('PUT', '/scopes/a/limits', { rates, tools: { probe: { rates } } })
    const calls = [{ callId: 'c1', name: 'probe' }, { callId: 'c2', name: 'probe' }, { name: 'none' }]
    expect((await home.ask('POST', '/invoke/batch', { scope: 'a', calls })).status).toBe(200)
    for (let i = 0; i < 3; i++) expect((await call(home, 'a', { callId: 'c1' })).body.replayed).toBe(true)
    expect((await call(home, 'a', { name: 'none' })).status).toBe(200)
    expect(await used(home, 'a')).toBeCloseTo(2, 1)
    expect((await call(home, 'a')).body.error.details).toMatchObject({ limit: 'scope.rate' })
    await home.ask('PUT', '/scopes/a/limits', { tools: { probe: { rates } } })
    expect((await call(home, 'a')).status).toBe(200)
    expect((await call(home, 'a')).body.error.details).toMatchObject({ limit: 'tool.rate', tool: 'probe', scope: 'a' })
    expect((await call(home, 'a', { name: 'none' })).status).toBe(200)
  })

  it('GET /limits explains what is in the way, the token’s own included, and hides what is above its reach', async () => {
    const home = await start({ 'limits.perToken': '{"concurrency":9}', 'limits.scopes': '{"team":{"concurrency":5}}' })
    await home.ask('PUT', '/scopes/a/limits', { queue: 3 })
    await call(home, 'b')
    const brief = async (token?: string) =>
      (await limitsOf(home, 'a', token)).map(({ limit, scope = '', value, source, used: u = '?' }) =>
        `${limit} ${scope} ${value} ${source} ${u}`.replaceAll('  ', ' ')
      )
    const server = ['calls.maxConcurrent 256 configuration 0', 'calls.maxQueued 1024 configuration 0']
    const own = ['calls.maxConcurrentPerScope a 32 configuration 0', 'scope.queue a 3 request 0']
    const token = ['token.concurrency 9 configuration 0']
    expect(await brief()).toEqual([...server, 'scope.concurrency team 5 configuration 0', ...own, ...token])
    const agent = await home.tokenFor('agent', 'a')
    expect(await brief(agent)).toEqual([...server, 'scope.concurrency 5 configuration ?', ...own, ...token])
    expect(outcome(await home.ask('GET', '/limits?scope=b', undefined, { token: agent }))).toBe('404 UNKNOWN_SCOPE')
    expect(outcome(await home.ask('GET', '/limits?scope=nowhere'))).toBe('404 UNKNOWN_SCOPE')
  })

  it('only an admin in whose reach the scope is sets them, and only to what is one', async () => {
    const home = await start()
    for (const role of ['agent', 'observer', 'operator', 'provider'] as const) {
      const token = await home.tokenFor(role, 'team')
      expect(outcome(await home.ask('PUT', '/scopes/a/limits', {}, { token }))).toBe('403 FORBIDDEN')
    }
    const token = await home.tokenFor('admin', 'a')
    expect(outcome(await home.ask('PUT', '/scopes/b/limits', {}, { token }))).toBe('404 UNKNOWN_SCOPE')
    expect(outcome(await home.ask('PUT', '/scopes/a/limits', {}, { token }))).toBe('200')
    expect(outcome(await home.ask('PUT', '/scopes/nowhere/limits', {}))).toBe('404 UNKNOWN_SCOPE')
    for (const [what, body] of badBodies) {
      const answer = await home.ask('PUT', '/scopes/a/limits', body)
      expect([what, outcome(answer)]).toEqual([what, expect.stringMatching(/^400 BAD_(REQUEST|JSON)$/)])
    }
    expect((await limitsOf(home, 'a')).every(({ source }) => source === 'configuration')).toBe(true)
  })
})

describe('limits and restarts', () => {
  it('what was set and what was used comes back; short rates and places begin anew; a disposal takes both', async () => {
    const home = await start({ 'limits.perToken': JSON.stringify({ rates: [{ requests: 50, perMs: day }] }) })
    const set = {
      concurrency: 4,
      rates: [
        { requests: 5, perMs: day },
        { requests: 100, perMs: 1_000 }
      ]
    }
    await home.ask('PUT', '/scopes/a/limits', set)
    for (let i = 0; i < 3; i++) await call(home, 'a')
    const shown = async () =>
      (await limitsOf(home, 'a'))
        .filter(({ limit }) => /\.rate|scope\.c/.test(limit))
        .map(({ limit, used: u, source }) => [limit, Math.round(u ?? -1), source])
    await home.restart()
    expect(await shown()).toEqual([
      ['scope.concurrency', 0, 'request'],
      ['scope.rate', 3, 'request'],
      ['scope.rate', 0, 'request'],
      ['token.rate', 3, 'configuration']
    ])
    await call(home, 'a')
    await call(home, 'a')
    expect((await call(home, 'a')).body.error.details).toMatchObject({ limit: 'scope.rate', value: 5 })
    await home.restart()
    expect((await call(home, 'a')).body.error.details).toMatchObject({ limit: 'scope.rate', value: 5 })

    await home.ask('DELETE', '/scopes/team')
    const rows = await home.app.eventLog.rows('registrations', { scope: 'a' })
    expect(rows.filter(({ kind }) => String(kind).startsWith('limit'))).toEqual([])
    await home.ask('PUT', '/scopes/a', {})
    expect(await shown()).toEqual([['token.rate', 5, 'configuration']])
  })

  it('what is used is stored while the server runs; rows that nobody can read, or about nothing any more, keep none from starting', async () => {
    const home = await start({ 'limits.storeMs': '100' })
    await home.ask('PUT', '/scopes/a/limits', { rates: [{ requests: 5, perMs: day }] })
    await call(home, 'a')
    const rows = () => home.app.eventLog.rows('registrations', { kind: 'limit-use', scope: 'a' })
    await until(async () => (await rows()).length === 1)
    const [row] = await rows()
    const use = { perMs: day, used: expect.closeTo(1, 1) }
    expect([row?.['name'], JSON.parse(String(row?.['data']))]).toEqual(['scope', [use]])

    const put = (kind: string, scope: string, name: string, data: string, at = Date.now()) => ({
      table: 'registrations' as const,
      op: 'put' as const,
      row: { kind, scope, name, data, created_at: at }
    })
    await home.app.eventLog.append({
      writes: [
        put('limits', 'a', '', 'no json'),
        put('limits', 'gone', '', '{}'),
        put('limit-use', 'a', 'scope', '{"perMs":1}'),
        put('limit-use', '', 'token:x', '[]', 0),
        put('limit-use', 'gone', 'tool:x', '[]')
      ]
    })
    await home.restart()
    expect((await call(home, 'a')).status).toBe(200)
    const left = await home.app.eventLog.rows('registrations', { kind: 'limit-use' })
    expect(left.map(({ scope }) => scope)).toEqual(['gone'])
  })
})

describe('R1 (reliability.md §3.1)', () => {
  it('ten times over the limit: the excess is refused by name, what was let in ends well, and probes are answered', async () => {
    const home = await start({
      'calls.maxConcurrentPerScope': '4',
      'limits.perScope': '{"queue":8}',
      'calls.maxConcurrent': '16'
    })
    const gate = new AbortController()
    home.app.tools.register({
      name: 'hold',
      description: 'Waits for the test.',
      parameters: { type: 'object' },
      output: { schema: {}, render: () => [] },
      isConcurrencySafe: () => true,
      execute: async () => {
        await wait(1e6, undefined, { signal: gate.signal }).catch(() => undefined)
        return 'held'
      }
    })
    const { admission } = home.app.invocations.parts
    const flood = Array.from({ length: 120 }, (_, index) => call(home, 'a', { name: 'hold', callId: `c${index}` }))
    await until(() => admission.running === 4 && admission.waiting === 8)
    const refused: Awaited<(typeof flood)[number]>[] = []
    for (const each of flood) void each.then((answer) => answer.status === 429 && refused.push(answer))
    const probes = await Promise.all(Array.from({ length: 20 }, () => home.ask('GET', '/health/live')))
    expect(probes.map(({ status }) => status)).toEqual(Array(20).fill(200))
    expect((await call(home, 'b')).status).toBe(200)
    await until(() => refused.length === 108)
    expect(admission.running + admission.waiting).toBe(12)
    gate.abort()
    const answers = await Promise.all(flood)
    expect(answers.filter(({ status }) => status === 200).map(({ body }) => body.value)).toEqual(Array(12).fill('held'))
    for (const answer of refused) {
      expect(answer.body.error.details).toEqual({ limit: 'scope.queue', value: 8, scope: 'a' })
      expect(answer.headers.get('retry-after')).toBe('1')
    }
    // A refused callId is free.
    const again = await call(home, 'a', { name: 'hold', callId: 'c119' })
    expect([again.status, again.body.value]).toEqual([200, 'held'])
    expect([admission.running, admission.waiting]).toEqual([0, 0])
  })
})
