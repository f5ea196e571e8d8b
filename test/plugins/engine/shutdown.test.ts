import { describe, expect, it } from 'vitest'
import { startWireApp, type WireApp } from '../../helpers/wire-app.ts'

/** A route of work that ends when it is told to. */
function workRoutes(app: WireApp['app']) {
  const state = { running: 0, finish: () => {}, aborted: false }
  const ended = new Promise<void>((resolve) => (state.finish = resolve))
  app.post('/work', { config: { action: 'calls:invoke', startsWork: true } }, async () => {
    state.running++
    await ended
    return { done: true }
  })
  app.get('/look', { config: { action: 'catalogue:read' } }, async () => ({ running: state.running }))
  app.shutdown.addDrainStep(async (deadline) => {
    deadline.addEventListener('abort', () => {
      state.aborted = true
      state.finish()
    })
    await ended
  })
  return state
}

async function startWork(settings: Record<string, string> = {}) {
  let state: ReturnType<typeof workRoutes> | undefined
  const wire = await startWireApp({ settings, routes: (app) => void (state = workRoutes(app)) })
  const work = wire.call('/work', { json: {} })
  while ((state as unknown as { running: number }).running === 0) await wire.call('/look')
  return { ...wire, work, state: state as unknown as ReturnType<typeof workRoutes> }
}

describe('shutdown', () => {
  it('is not ready and takes no new work at once, answers the rest, and lets running work finish', async () => {
    const { app, call, work, state } = await startWork()
    const closing = app.close()
    while (!app.shutdown.isDraining) await new Promise(setImmediate)
    const ready = await call('/health/ready')
    expect([ready.status, await ready.json()]).toMatchObject([503, { reasons: { shutdown: 'shutting down' } }])
    const refused = await call('/work', { json: {} })
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1'])
    expect(await refused.json()).toMatchObject({ error: { code: 'SHUTTING_DOWN' } })
    const other = await call('/look')
    expect([other.status, other.headers.get('connection')]).toEqual([200, 'close'])
    state.finish()
    expect(await (await work).json()).toEqual({ done: true })
    await closing
    expect(state.aborted).toBe(false)
    await expect(call('/look')).rejects.toThrow()
  })

  it('aborts work at the deadline, and still answers it', async () => {
    const { app, work, state } = await startWork({ 'drain.drainMs': '50' })
    await app.close()
    expect(state.aborted).toBe(true)
    expect((await work).status).toBe(200)
  })

  it('ends though work does not, and says so', async () => {
    const lines: string[] = []
    const { app } = await startWireApp({
      settings: { 'drain.drainMs': '20', 'drain.killMs': '30' },
      stream: { write: (line) => void lines.push(line) },
      routes: (server) => server.shutdown.addDrainStep(() => new Promise(() => {}))
    })
    await app.close()
    expect(lines.join('')).toContain('Work did not end in time')
  })

  it('one failing step does not keep the others from draining', async () => {
    let drained = false
    const { app } = await startWireApp({
      routes: (server) => {
        server.shutdown.addDrainStep(async () => {
          throw new Error('no')
        })
        server.shutdown.addDrainStep(async () => {
          await new Promise(setImmediate)
          drained = true
        })
      }
    })
    await app.close()
    expect(drained).toBe(true)
  })

  it('does not wait for a kept connection that was busy when it began', async () => {
    const { app, work, state } = await startWork({ 'http.keepAliveTimeoutMs': '60000' })
    const closing = app.close()
    while (!app.shutdown.isDraining) await new Promise(setImmediate)
    state.finish()
    await (await work).text()
    await closing
    expect(app.server.listening).toBe(false)
  })
})
