import { describe, expect, it } from 'vitest'
import { EventClient, serveApp, type ServedApp } from '../../helpers/served-app.ts'
import { until } from '../../helpers/until.ts'

const invoke = (served: ServedApp) => served.call('/invoke', { json: { name: 'none' } })

describe('load shedding (reliability.md §3.1)', () => {
  it('under pressure work is refused by name, and what helps against it is served: probes, approvals, cancel, metrics', async () => {
    const served = await serveApp({ 'shedding.maxRssBytes': '1' })
    const client = await EventClient.open(served)
    // Nothing is known of a process that was just started.
    expect((await invoke(served)).status).toBe(200)
    await until(async () => (await invoke(served)).status === 503)

    const refused = await invoke(served)
    const { error } = (await refused.json()) as { error: object }
    expect(error).toMatchObject({ code: 'OVERLOADED', details: { limit: 'shedding.maxRssBytes', value: 1 } })
    expect(refused.headers.get('retry-after')).toBe('1')
    for (const path of ['/tools', '/limits', '/nowhere'])
      expect([path, (await served.call(path)).status]).toEqual([path, 503])
    const frame = await client.ask({ type: 'invoke', id: 'x', name: 'none' })
    expect(frame).toMatchObject({
      type: 'error',
      id: 'x',
      code: 'OVERLOADED',
      details: { limit: 'shedding.maxRssBytes' }
    })
    expect(await client.ask({ type: 'subscribe', id: 's' })).toMatchObject({ type: 'subscribed' })

    const served2xx = ['/health/live', '/health/ready', '/approvals', '/metrics', '/tokens']
    for (const path of served2xx) expect([path, (await served.call(path)).status]).toEqual([path, 200])
    expect((await served.call('/calls/default/none/cancel', { json: {} })).status).toBe(404)
    expect((await served.call('/approvals/none', { json: { decision: 'deny' } })).status).toBe(404)
    const text = await (await served.call('/metrics')).text()
    expect(text).toMatch(/toolwright_requests_refused_total\{limit="shedding.maxRssBytes"\} \d+/)
  })

  it('a loop that stands still is pressure, and the pressure ends with it', async () => {
    const served = await serveApp({ 'shedding.maxLoopDelayMs': '200' })
    const { shedding } = served.app
    const block = setInterval(() => {
      const end = performance.now() + 400
      while (performance.now() < end);
    }, 1)
    const isShedding = (): boolean => {
      try {
        shedding.assertNone()
        return false
      } catch {
        return true
      }
    }
    await until(isShedding)
    expect(shedding.loopDelayMs).toBeGreaterThan(200)
    clearInterval(block)
    await until(() => !isShedding())
  })
})
