import { describe, expect, it } from 'vitest'
import { sendRaw, statusOf, upgradeRequest } from '../helpers/raw-http.ts'
import { serveApp } from '../helpers/served-app.ts'
import { startWireApp } from '../helpers/wire-app.ts'

describe('S2 WebSocket upgrades', () => {
  it('S2 no path, known or not, answers 101 to a caller who is not allowed', async () => {
    const { port, admin, routes } = await serveApp()
    const known = routes.filter((route) => route.startsWith('GET ')).map((route) => route.slice(4))
    expect(known).toContain('/events')
    const paths = [...known.filter((path) => !path.startsWith('/health/')), '/nowhere', '/health/nowhere']
    const Host = `127.0.0.1:${port}`
    const Authorization = `Bearer ${admin}`
    const refused: Record<string, Record<string, string>> = {
      'no token': { Host },
      'a bad token': { Host, Authorization: 'Bearer tw_0000000000000000_x' },
      'a foreign origin': { Host, Authorization, Origin: 'http://evil.example' },
      'a null origin': { Host, Authorization, Origin: 'null' },
      'a foreign host': { Host: 'evil.example', Authorization }
    }
    for (const path of paths) {
      for (const [why, headers] of Object.entries(refused)) {
        const answer = await sendRaw(port, upgradeRequest(path, headers))
        expect([path, why, statusOf(answer)]).toEqual([path, why, why.endsWith('token') ? 401 : 403])
      }
    }
    for (const path of ['/health/live', '/health/ready']) {
      expect([path, statusOf(await sendRaw(port, upgradeRequest(path, { Host, Authorization })))]).toEqual([path, 400])
    }
    const allowed = await sendRaw(port, upgradeRequest('/events', { Host, Authorization }), '\r\n\r\n')
    expect(statusOf(allowed)).toBe(101)
  })

  it('a token in the query is refused on an upgrade too', async () => {
    const { port, admin } = await startWireApp()
    const answer = await sendRaw(port, upgradeRequest(`/nowhere?a=${admin}`, { Host: `127.0.0.1:${port}` }))
    expect(statusOf(answer)).toBe(400)
    expect(answer).toContain('TOKEN_IN_URL')
  })

  it('an upgrade of a route that takes no sockets is 400, of an unknown one 404', async () => {
    const { port, admin } = await startWireApp()
    const headers = { Host: `127.0.0.1:${port}`, Authorization: `Bearer ${admin}` }
    expect(statusOf(await sendRaw(port, upgradeRequest('/tokens', headers)))).toBe(400)
    expect(statusOf(await sendRaw(port, upgradeRequest('/nowhere', headers)))).toBe(404)
  })

  it('a handshake that is none is 400 in the one shape, with the version that is spoken here', async () => {
    const { port, admin } = await serveApp()
    const headers = { Host: `127.0.0.1:${port}`, Authorization: `Bearer ${admin}` }
    for (const wrong of [{ 'Sec-WebSocket-Key': 'short' }, { 'Sec-WebSocket-Version': '7' }]) {
      const answer = await sendRaw(port, upgradeRequest('/events', { ...headers, ...wrong }))
      expect(statusOf(answer)).toBe(400)
      expect(answer).toContain('\r\nSec-WebSocket-Version: 13\r\n')
      expect(answer).toMatch(/\r\n\r\n\{"error":\{"code":"BAD_REQUEST"/)
    }
  })

  it('bears extension offers with names of object members', async () => {
    const { port, admin, call } = await startWireApp({
      routes: async (app) => {
        app.get('/socket', { websocket: true, config: { action: 'catalogue:read' } }, (socket) => socket.send('open'))
      }
    })
    for (const extensions of ['constructor', '__proto__; a=1', 'permessage-deflate; server_max_window_bits=99']) {
      const answer = await sendRaw(
        port,
        upgradeRequest('/socket', {
          Host: `127.0.0.1:${port}`,
          Authorization: `Bearer ${admin}`,
          'Sec-WebSocket-Extensions': extensions
        }),
        'open'
      )
      expect([extensions, [101, 400].includes(statusOf(answer))]).toEqual([extensions, true])
      expect(answer).not.toMatch(/sec-websocket-extensions/i)
    }
    expect((await call('/tokens')).status).toBe(200)
  })
})
