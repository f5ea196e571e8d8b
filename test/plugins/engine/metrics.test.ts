import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { CallMetrics } from '../../../plugins/engine/call-metrics.ts'
import { MetricSet } from '../../../plugins/engine/metric-set.ts'
import { metricTable, type MetricRow } from '../../../plugins/engine/metric-table.ts'
import { TestApp } from '../../helpers/app.ts'
import { EventClient, serveApp, type ServedApp } from '../../helpers/served-app.ts'
import { until } from '../../helpers/until.ts'

/** The samples of a scrape: `name{labels}` to value. */
async function scrape(served: ServedApp): Promise<Map<string, number>> {
  const response = await served.call('/metrics')
  expect(response.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/)
  return samplesOf(await response.text())
}

const samplesOf = (text: string): Map<string, number> =>
  new Map(
    text
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))])
  )

describe('docs/metrics.md', () => {
  it('has every metric of the table, as it says, and no other', () => {
    const page = readFileSync(resolve(import.meta.dirname, '../../../docs/metrics.md'), 'utf8')
    const lines = page.slice(page.indexOf('| metric |')).split('\n')
    const rows = lines.slice(2, lines.indexOf(''))
    const expected = Object.entries<MetricRow>(metricTable).map(
      ([name, { type, labels, help }]) =>
        `| \`${name}\` | ${type} | ${labels.map((label) => `\`${label}\``).join(', ')} | ${help} |`
    )
    expect(rows).toEqual(expected)
  })
})

describe('GET /metrics', () => {
  it('shows every metric of the table, each moves with what it counts, and only who watches the whole server sees them', async () => {
    const settings = { 'limits.scopes': '{"global":{"tools":{"need":{"concurrency":0,"queue":0}}}}' }
    const served = await serveApp(settings, { isDurable: true })
    const app = new TestApp(served)
    served.app.tools.addHook('preExecute', (exec, next) => (exec.name === 'meta' ? { kind: 'ask' } : next()))
    const before = await scrape(served)
    for (const [name, { type, labels }] of Object.entries<MetricRow>(metricTable)) {
      const names = [...before.keys()].filter((key) => key.startsWith(name))
      // A histogram or counter with labels has samples only when it was used.
      if (labels.length === 0 || type === 'gauge') expect([name, names.length > 0]).toEqual([name, true])
    }

    await app.invoke({ name: 'echo', arguments: { text: 'x' } })
    await app.invoke({ name: 'boom' })
    await app.invoke({ name: 'nothing-of-this-name' })
    await app.invoke({ name: 'gate' })
    expect((await app.post('/invoke', { name: 'need' })).status).toBe(429)
    const held = app.invoke({ name: 'gate', arguments: { id: 'g' }, callId: 'held' })
    await app.entered('g')
    const asked = app.invoke({ name: 'meta', arguments: { v: 'v' }, callId: 'asked' })
    await app.state('asked', 'awaiting-approval')
    const client = await EventClient.open(served)
    await client.ask({ type: 'subscribe', id: 's' })
    served.app.tools.child('below')

    const after = await scrape(served)
    const moved = (key: string): number => (after.get(key) ?? 0) - (before.get(key) ?? 0)
    const calls = (tool: string, outcome: string, stage: string): number =>
      moved(`toolwright_calls_total{tool="${tool}",outcome="${outcome}",stage="${stage}"}`)
    expect([
      calls('echo', 'success', 'none'),
      calls('boom', 'failure', 'body'),
      calls('unknown', 'failure', 'name'),
      calls('gate', 'failure', 'arguments')
    ]).toEqual([1, 1, 1, 1])
    expect([...after.keys()].filter((key) => key.includes('nothing-of-this-name'))).toEqual([])
    expect(moved('toolwright_call_duration_seconds_count{tool="echo"}')).toBe(1)
    for (const stage of ['pre-execute', 'dispatch', 'post-execute']) {
      expect(moved(`toolwright_stage_duration_seconds_count{stage="${stage}"}`)).toBeGreaterThan(0)
    }
    expect(moved('toolwright_requests_refused_total{limit="tool.queue"}')).toBe(1)
    for (const gauge of ['requests_running', 'approvals_pending', 'subscribers', 'sockets', 'scopes']) {
      expect([gauge, moved(`toolwright_${gauge}`)]).toEqual([gauge, 1])
    }
    expect(after.get('toolwright_calls_live')).toBe(2)
    expect(after.get('toolwright_log_available')).toBe(1)
    const appends = moved('toolwright_log_append_duration_seconds_count')
    expect(appends).toBeGreaterThan(7)
    expect(moved('toolwright_log_batch_appends_sum')).toBe(appends)
    for (const name of ['process_resident_memory_bytes', 'nodejs_heap_size_used_bytes', 'process_start_time_seconds']) {
      expect([name, (after.get(name) ?? 0) > 1e6]).toEqual([name, true])
    }
    expect(moved('process_cpu_seconds_total')).toBeGreaterThan(0)

    app.release('g')
    const [{ id }] = (await app.get('/approvals?state=pending')).body.approvals
    await app.post(`/approvals/${id}`, { decision: 'allow' })
    await Promise.all([held, asked])
    client.socket.close()
    await until(async () => {
      const last = await scrape(served)
      return ['requests_running', 'approvals_pending', 'subscribers', 'calls_live'].every(
        (name) => last.get(`toolwright_${name}`) === 0
      )
    })

    // It is for those who watch the whole server.
    const status = async (token: string): Promise<number> => (await served.call('/metrics', { token })).status
    for (const role of ['observer', 'operator', 'admin'] as const)
      expect(await status(await served.tokenFor(role))).toBe(200)
    for (const role of ['agent', 'provider'] as const) expect(await status(await served.tokenFor(role))).toBe(403)
    served.app.tools.child('team')
    expect(await status(await served.tokenFor('admin', 'team'))).toBe(403)
    expect(await status('none')).toBe(401)
  })

  it('needs no token where it is public', async () => {
    const served = await serveApp({ 'metrics.public': 'true' })
    const response = await fetch(`http://127.0.0.1:${served.port}/metrics`)
    expect([response.status, samplesOf(await response.text()).get('toolwright_scopes')]).toEqual([200, 1])
  })
})

describe('labels', () => {
  it('of 10,000 tools as many have a name as the setting says; the others are counted together', async () => {
    const set = new MetricSet()
    const metrics = new CallMetrics(set, 5)
    const call = (name: string, tool: object | undefined) =>
      metrics.closed({ exec: { name }, tool, openedAt: performance.now() } as never, { isError: false } as never)
    for (let index = 0; index < 10_000; index++) {
      call(`tool-${index}`, {})
      call(`nobody-${index}`, undefined)
    }
    call('other', {})
    call('unknown', {})
    call('tool-3', {})
    const samples = samplesOf(await set.text())
    const counted = [...samples].filter(([key]) => key.startsWith('toolwright_calls_total'))
    expect(counted.map(([key, value]) => [/tool="([^"]*)"/.exec(key)?.[1], value])).toEqual([
      ['tool-0', 1],
      ['unknown', 10_001],
      ['tool-1', 1],
      ['tool-2', 1],
      ['tool-3', 2],
      ['tool-4', 1],
      ['other', 9_996]
    ])
    expect([...samples.keys()].filter((key) => key.includes('tool=')).length).toBeLessThan(7 * 20)
  })
})
