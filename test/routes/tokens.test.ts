import { once } from 'node:events'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { WebSocket } from 'ws'
import { startWireApp } from '../helpers/wire-app.ts'

interface TokenAnswer {
  id: string
  token?: string
  scope: string
}

describe('/tokens', () => {
  it('makes a token that is shown once and works, lists it without it, and ends it', async () => {
    const { call } = await startWireApp()
    const made = await call('/tokens', { json: { role: 'observer', label: 'a UI' } })
    expect(made.status).toBe(201)
    const { token, ...info } = (await made.json()) as TokenAnswer
    expect(info).toMatchObject({ role: 'observer', label: 'a UI', scope: 'global', createdAt: expect.any(Number) })
    expect((await call('/tickets', { json: {}, token })).status).toBe(201)
    const list = await (await call('/tokens')).text()
    expect(JSON.parse(list)).toMatchObject({ tokens: [{ label: 'test' }, info] })
    expect(list).not.toContain(String(token).split('_')[2])

    const ended = await call(`/tokens/${info.id}`, { method: 'DELETE' })
    expect([ended.status, await ended.text()]).toEqual([204, ''])
    expect((await call('/tickets', { json: {}, token })).status).toBe(401)
    expect((await call(`/tokens/${info.id}`, { method: 'DELETE' })).status).toBe(404)
  })

  it('shows one token with its last use', async () => {
    const { call, tokenFor } = await startWireApp()
    const token = await tokenFor('observer')
    const id = token.split('_')[1] as string
    const show = async () => (await (await call(`/tokens/${id}`)).json()) as TokenAnswer & { lastUsedAt?: number }
    expect((await show()).lastUsedAt).toBeUndefined()
    await call('/tickets', { json: {}, token })
    expect(await show()).toMatchObject({ id, role: 'observer', lastUsedAt: expect.any(Number) })
    expect((await call('/tokens/0000000000000000')).status).toBe(404)
  })

  it('the last use is stored when the server stops', async () => {
    const { app, call, log, admin } = await startWireApp()
    await call('/tokens')
    const rows = () => log.rows('access_tokens', {})
    expect((await rows())[0]?.last_used_at).toBe(null)
    vi.spyOn(log, 'close').mockResolvedValue()
    await app.close()
    expect((await rows())[0]).toMatchObject({ id: admin.split('_')[1], last_used_at: expect.any(Number) })
  })

  it('rotates: the old secret, its sockets and its tickets end at once, or when the overlap is over', async () => {
    const { call, port, app, tokenFor } = await startWireApp({
      routes: (server) => {
        server.route({
          method: 'GET',
          url: '/events',
          config: { action: 'catalogue:read' },
          handler: async () => '',
          wsHandler: (socket, { principal }) => {
            server.connections.add(principal, (code, reason) => socket.close(code, reason))
          }
        })
      }
    })
    const open = async (token: string, ...protocols: string[]) => {
      const headers = protocols.length === 0 ? { authorization: `Bearer ${token}` } : {}
      const socket = new WebSocket(`ws://127.0.0.1:${port}/events`, ['toolwright.v1', ...protocols], { headers })
      onTestFinished(() => socket.terminate())
      await once(socket, 'open')
      return { socket, closed: once(socket, 'close').then(([code]) => code as number) }
    }
    const ticketOf = async (token: string) =>
      `ticket.${((await (await call('/tickets', { json: {}, token })).json()) as { ticket: string }).ticket}`
    const status = async (token: string) => (await call('/tickets', { json: {}, token })).status
    const rotate = async (id: string, json: unknown) => {
      const answer = await call(`/tokens/${id}/rotate`, { json })
      return { status: answer.status, ...((await answer.json()) as { token: string; previousUntil?: number }) }
    }

    const first = await tokenFor('operator')
    const id = first.split('_')[1] as string
    const bystander = await open(await tokenFor('operator'))
    const socket = await open(first)
    const ticket = await ticketOf(first)
    const second = await rotate(id, {})
    expect(second).toMatchObject({ status: 200, id, role: 'operator', label: 'operator' })
    expect([await status(first), await status(second.token), await socket.closed]).toEqual([401, 201, 4403])
    await expect(open('', ticket)).rejects.toThrow('401')

    const [kept, byTicket] = [await open(second.token), await open('', await ticketOf(second.token))]
    const third = await rotate(id, { overlapMs: 1_500 })
    expect(third.previousUntil).toBeGreaterThan(Date.now() - 1_500)
    const fresh = await open(third.token)
    expect([await kept.closed, await byTicket.closed, await status(second.token)]).toEqual([4403, 4403, 401])
    expect([fresh.socket.readyState, bystander.socket.readyState]).toEqual([WebSocket.OPEN, WebSocket.OPEN])
    expect(await status(third.token)).toBe(201)

    expect((await call(`/tokens/${id}/rotate`, { method: 'POST' })).status).toBe(200)
    for (const json of [{ overlapMs: -1 }, { overlapMs: 2_592_000_001 }, { ttlMs: 0 }, { more: 1 }, []]) {
      expect([json, (await rotate(id, json)).status]).toEqual([json, 400])
    }
    expect((await rotate('preset', {})).status).toBe(404)
    expect(app.connections.size).toBeGreaterThan(0)
  })

  it('is for admins', async () => {
    const { call, tokenFor } = await startWireApp()
    for (const role of ['agent', 'observer', 'operator', 'provider'] as const) {
      const token = await tokenFor(role)
      for (const answer of [
        await call('/tokens', { token }),
        await call('/tokens', { json: { role: 'admin' }, token }),
        await call('/tokens/0000000000000000', { token }),
        await call('/tokens/0000000000000000/rotate', { json: {}, token }),
        await call('/tokens/0000000000000000', { method: 'DELETE', token })
      ]) {
        expect([role, answer.status, await answer.json()]).toMatchObject([role, 403, { error: { code: 'FORBIDDEN' } }])
      }
    }
  })

  it('pages', async () => {
    const { call, tokenFor } = await startWireApp()
    for (let n = 0; n < 4; n++) await tokenFor('observer')
    const ids: string[] = []
    let next = ''
    do {
      const page = (await (await call(`/tokens?limit=2${next}`)).json()) as { tokens: TokenAnswer[]; next?: string }
      expect(page.tokens.length).toBeLessThanOrEqual(2)
      ids.push(...page.tokens.map(({ id }) => id))
      next = page.next === undefined ? '' : `&after=${page.next}`
    } while (next !== '')
    expect(new Set(ids).size).toBe(5)
    for (const query of ['limit=0', 'limit=501', 'limit=x', 'limit=1.5', 'after=0000000000000000', 'more=1']) {
      expect([query, (await call(`/tokens?${query}`)).status]).toEqual([query, 400])
    }
  })

  it('an admin of a scope rules over the tokens in it and knows of no other', async () => {
    const { call, tokenFor } = await startWireApp({ scopes: { a: 'global', a1: 'a', b: 'global' } })
    const token = await tokenFor('admin', 'a')
    const inB = (await tokenFor('observer', 'b')).split('_')[1]
    const inA1 = (await tokenFor('observer', 'a1')).split('_')[1]
    const { tokens } = (await (await call('/tokens', { token })).json()) as { tokens: TokenAnswer[] }
    expect(tokens.map(({ scope }) => scope).sort()).toEqual(['a', 'a1'])
    for (const scope of ['b', 'global', 'nothing']) {
      const answer = await call('/tokens', { json: { role: 'observer', scope }, token })
      expect([scope, answer.status, await answer.json()]).toMatchObject([
        scope,
        404,
        { error: { code: 'UNKNOWN_SCOPE' } }
      ])
    }
    expect((await call(`/tokens/${inB}`, { token })).status).toBe(404)
    expect((await call(`/tokens/${inB}/rotate`, { json: {}, token })).status).toBe(404)
    expect((await call(`/tokens/${inB}`, { method: 'DELETE', token })).status).toBe(404)
    expect((await call(`/tokens/${inA1}`, { method: 'DELETE', token })).status).toBe(204)
    expect(((await (await call('/tokens', { json: { role: 'observer' }, token })).json()) as TokenAnswer).scope).toBe(
      'a'
    )
  })

  it('takes nothing but what it describes', async () => {
    const { call } = await startWireApp()
    for (const json of [
      {},
      { role: 'root' },
      { role: 'agent' },
      { role: ['admin'] },
      { role: 'observer', scope: '../x' },
      { role: 'observer', ttlMs: 0 },
      { role: 'observer', ttlMs: '5' },
      { role: 'observer', more: 1 },
      { role: 'observer', label: 'x'.repeat(257) },
      [],
      null,
      'admin'
    ]) {
      const answer = await call('/tokens', { json })
      expect([json, answer.status]).toEqual([json, 400])
    }
    expect((await call('/tokens', { method: 'POST' })).status).toBe(400)
    expect((await call('/tokens', { json: { role: 'agent', scope: 'not-made-yet' } })).status).toBe(201)
  })
})
