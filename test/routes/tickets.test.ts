import { describe, expect, it } from 'vitest'
import { startWireApp } from '../helpers/wire-app.ts'

describe('/tickets', () => {
  it('are for every role, with or without a body', async () => {
    const { call, tokenFor } = await startWireApp()
    for (const role of ['agent', 'observer', 'operator', 'provider', 'admin'] as const) {
      const answer = await call('/tickets', { json: {}, token: await tokenFor(role) })
      expect(await answer.json()).toEqual({
        ticket: expect.stringMatching(/^[\w-]{43}$/),
        scope: 'global',
        expiresInMs: 30_000
      })
    }
    expect((await call('/tickets', { method: 'POST' })).status).toBe(201)
    expect((await call('/tickets', { json: { more: 1 } })).status).toBe(400)
  })

  it('beyond the limit are 429 with Retry-After', async () => {
    const { call } = await startWireApp({ settings: { 'auth.maxTicketsPerToken': '1' } })
    await call('/tickets', { json: {} })
    const answer = await call('/tickets', { json: {} })
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([429, '1'])
  })
})
