import { describe, expect, it } from 'vitest'
import { sendRaw, statusOf, upgradeRequest } from '../helpers/raw-http.ts'
import { startWireApp } from '../helpers/wire-app.ts'

describe('S2 WebSocket upgrades', () => {
  it('S2 no path, known or not, answers 101 to a caller who is not allowed', async () => {
    const paths: string[] = ['/nowhere', '/health/nowhere']
    const { port, admin } = await startWireApp({
      routes: async (app) => {
        app.addHook('onRoute', ({ url, method }) => {
          if ([method].flat().includes('GET')) paths.push(url)
        })
        app.get('/socket', { websocket: true, config: { action: 'catalogue:read' } }, (socket) => socket.send('open'))
      }
    })
    expect(paths).toContain('/socket')
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
    const allowed = await sendRaw(port, upgradeRequest('/socket', { Host, Authorization }), 'open')
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
