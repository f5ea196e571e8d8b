import { describe, expect, it } from 'vitest'
import { startWireApp } from '../helpers/wire-app.ts'

describe('/health', () => {
  it('answers without a token and under any Host, and says what is not ready', async () => {
    const { app, url } = await startWireApp()
    expect(await (await fetch(`${url}/health/live`)).json()).toEqual({ status: 'live' })
    expect(await (await fetch(`${url}/health/ready`)).json()).toEqual({ status: 'ready', reasons: {} })
    const undo = app.health.addCheck('store', () => 'the disk is full')
    const answer = await fetch(`${url}/health/ready`, { headers: { origin: 'http://evil.example' } })
    expect([answer.status, await answer.json()]).toEqual([
      503,
      { status: 'not ready', reasons: { store: 'the disk is full' } }
    ])
    expect((await fetch(`${url}/health/live`)).status).toBe(200)
    undo()
    expect((await fetch(`${url}/health/ready`)).status).toBe(200)
  })
})
