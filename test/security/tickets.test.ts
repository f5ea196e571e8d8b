import { describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { sendRaw, statusOf } from '../helpers/raw-http.ts'
import { startWireApp, type WireApp } from '../helpers/wire-app.ts'

const echoRoute: NonNullable<Parameters<typeof startWireApp>[0]>['routes'] = async (app) => {
  app.get('/socket', { websocket: true, config: { action: 'catalogue:read' } }, (socket, { principal }) => {
    socket.send(principal.scope)
  })
}

/** The first message of a socket that offers these subprotocols, or the status of the refusal. */
function offer({ port }: WireApp, protocols: string[]): Promise<{ message: string; protocol: string } | number> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/socket`, protocols)
    socket.on('message', (data: Buffer) => {
      resolve({ message: data.toString(), protocol: socket.protocol })
      socket.close()
    })
    socket.on('unexpected-response', (request, response) => {
      resolve(response.statusCode as number)
      request.destroy()
    })
    socket.on('error', (error) => reject(error))
  })
}

async function makeTicket(wire: WireApp, body: object = {}, token?: string): Promise<string> {
  const answer = await wire.call('/tickets', { json: body, token })
  expect(answer.status).toBe(201)
  return ((await answer.json()) as { ticket: string }).ticket
}

describe('S6 tickets', () => {
  it('S6 opens one socket, for the scope it was made for, and is not echoed', async () => {
    const wire = await startWireApp({ routes: echoRoute, scopes: { a: 'global', b: 'a' } })
    const ticket = await makeTicket(wire, { scope: 'b' }, await wire.tokenFor('observer', 'a'))
    expect(Buffer.from(ticket, 'base64url')).toHaveLength(32)
    expect(await offer(wire, ['toolwright.v1', `ticket.${ticket}`])).toEqual({
      message: 'b',
      protocol: 'toolwright.v1'
    })
    expect(await offer(wire, ['toolwright.v1', `ticket.${ticket}`])).toBe(401)
  })

  it('S6 is refused after 31 seconds, and not after 29', async () => {
    let now = 0
    const wire = await startWireApp({ routes: echoRoute, clock: () => now })
    const [first, second] = [await makeTicket(wire), await makeTicket(wire)]
    now = 29_000
    expect(await offer(wire, ['toolwright.v1', `ticket.${first}`])).toMatchObject({ message: 'global' })
    now = 31_000
    expect(await offer(wire, ['toolwright.v1', `ticket.${second}`])).toBe(401)
  })

  it('S6 is not made for a scope outside the token’s, nor for one that is not there', async () => {
    const wire = await startWireApp({ scopes: { a: 'global', b: 'global' } })
    const token = await wire.tokenFor('agent', 'a')
    for (const scope of ['b', 'global', 'nowhere']) {
      const answer = await wire.call('/tickets', { json: { scope }, token })
      expect([scope, answer.status]).toEqual([scope, 404])
      expect(await answer.json()).toMatchObject({ error: { code: 'UNKNOWN_SCOPE' } })
    }
  })

  it('dies with its token', async () => {
    const wire = await startWireApp({ routes: echoRoute })
    const token = await wire.tokenFor('observer')
    const ticket = await makeTicket(wire, {}, token)
    await wire.call(`/tokens/${token.split('_')[1]}`, { method: 'DELETE' })
    expect(await offer(wire, ['toolwright.v1', `ticket.${ticket}`])).toBe(401)
  })

  it('is no bearer token, and good for nothing but an upgrade', async () => {
    const wire = await startWireApp({ routes: echoRoute })
    const ticket = await makeTicket(wire)
    expect((await wire.call('/tokens', { token: ticket })).status).toBe(401)
    const headers = { authorization: '', 'sec-websocket-protocol': `toolwright.v1, ticket.${ticket}` }
    expect((await wire.call('/tokens', { headers })).status).toBe(401)
    expect((await wire.call(`/tokens?x=ticket&ticket=${ticket}`)).status).toBe(400)
    expect(await offer(wire, ['toolwright.v1', `ticket.${ticket}`])).toMatchObject({ message: 'global' })
  })

  it.each(['', 'Connection: close\r\n', 'Connection: close, Upgrade\r\n'])(
    'S6 makes no token, whatever the request calls itself: %j',
    async (connection) => {
      const wire = await startWireApp({ routes: echoRoute })
      const ticket = await makeTicket(wire)
      const body = '{"role":"admin"}'
      const answer = await sendRaw(
        wire.port,
        `POST /tokens HTTP/1.1\r\nHost: 127.0.0.1:${wire.port}\r\nUpgrade: websocket\r\n${connection}` +
          `Sec-WebSocket-Protocol: toolwright.v1, ticket.${ticket}\r\n` +
          `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
        '"requestId"'
      )
      expect([400, 401]).toContain(statusOf(answer))
      expect(wire.app.tokens.list()).toHaveLength(1)
    }
  )

  it('needs the subprotocol beside it, and two tickets are none', async () => {
    const wire = await startWireApp({ routes: echoRoute })
    expect(await offer(wire, [`ticket.${await makeTicket(wire)}`])).toBe(400)
    expect(await offer(wire, ['toolwright.v1', `ticket.${await makeTicket(wire)}`, 'ticket.x'])).toBe(401)
  })
})
