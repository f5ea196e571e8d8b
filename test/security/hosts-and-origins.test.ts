import { describe, expect, it } from 'vitest'
import { sendRaw, statusOf } from '../helpers/raw-http.ts'
import { serveApp } from '../helpers/served-app.ts'
import { startWireApp } from '../helpers/wire-app.ts'

const get = (path: string, headers: Record<string, string>, method = 'GET'): string =>
  `${method} ${path} HTTP/1.1\r\n${Object.entries({ ...headers, Connection: 'close' })
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')}\r\n`

describe('S1 DNS rebinding', () => {
  it('S1 every route but health is refused under a foreign Host, before its token is looked at', async () => {
    const { app, port, admin, routes } = await serveApp()
    expect(routes).toContain('POST /invoke')
    for (const route of routes) {
      const [method, path] = route.split(' ') as [string, string]
      const isPublic = path.startsWith('/health/')
      for (const Authorization of [`Bearer ${admin}`, 'Bearer wrong']) {
        const answer = await sendRaw(port, get(path, { Host: `evil.example:${port}`, Authorization }, method))
        expect([route, statusOf(answer)]).toEqual([route, isPublic ? 200 : 403])
        if (!isPublic && method !== 'HEAD') expect(answer).toContain('HOST_NOT_ALLOWED')
      }
    }
    expect(app.eventLog.head).toBe(-1)
  })

  it('S1 unknown paths and wrong methods are refused alike', async () => {
    const { port } = await startWireApp()
    for (const [method, path] of [
      ['GET', '/nowhere'],
      ['PUT', '/tokens'],
      ['OPTIONS', '*'],
      ['GET', '/health/nowhere'],
      ['GET', `http://127.0.0.1:${port}/tokens`]
    ] as const) {
      const answer = await sendRaw(port, get(path, { Host: 'evil.example' }, method))
      expect([path, statusOf(answer)]).toEqual([path, 403])
    }
  })

  it('S1 a target in the absolute form says which host is meant, whatever Host says', async () => {
    const { port, admin } = await startWireApp()
    const status = async (target: string): Promise<number> =>
      statusOf(await sendRaw(port, get(target, { Host: `127.0.0.1:${port}`, Authorization: `Bearer ${admin}` })))
    for (const origin of [`http://127.0.0.1:${port}`, `HTTP://localhost:${port}`]) {
      expect([origin, await status(`${origin}/tokens`)]).toEqual([origin, 200])
    }
    for (const origin of ['http://evil.example', `http://evil.example:${port}`, `http://a@127.0.0.1:${port}`]) {
      expect([origin, await status(`${origin}/tokens`)]).toEqual([origin, 403])
    }
  })

  it('takes the loopback names with its own port, in any spelling, and no other', async () => {
    const { port, admin } = await startWireApp({ settings: { allowedHosts: 'tools.example,a.example:81,b.example:*' } })
    const status = async (Host: string): Promise<number> =>
      statusOf(await sendRaw(port, get('/tokens', { Host, Authorization: `Bearer ${admin}` })))
    for (const host of ['127.0.0.1', 'localhost', 'LOCALHOST', 'localhost.', '[::1]', '[0:0:0:0:0:0:0:1]']) {
      expect([host, await status(`${host}:${port}`)]).toEqual([host, 200])
      expect([host, await status(`${host}:${port + 1}`)]).toEqual([host, 403])
      expect([host, await status(host)]).toEqual([host, 403])
    }
    for (const host of [
      'tools.example',
      'tools.example:443',
      `tools.example:${port}`,
      'a.example:81',
      'b.example:4711'
    ]) {
      expect([host, await status(host)]).toEqual([host, 200])
    }
    for (const host of [
      '',
      'tools.example:4711',
      'a.example',
      'a.example:82',
      'xtools.example',
      'tools.example.evil',
      `evil@127.0.0.1:${port}`,
      `127.0.0.1:${port},evil.example`,
      `127.0.0.1:${port}/`,
      `localhost:${port}:${port}`,
      '0.0.0.0',
      `0.0.0.0:${port}`
    ]) {
      expect([host, await status(host)]).toEqual([host, 403])
    }
  })

  it('refuses foreign origins, and pages of other sites without an origin', async () => {
    const { port, call } = await startWireApp({ settings: { allowedOrigins: 'https://ui.example' } })
    const code = async (headers: Record<string, string>): Promise<unknown> => {
      const answer = await call('/tokens', { headers })
      return answer.status === 200 ? 200 : ((await answer.json()) as { error: { code: string } }).error.code
    }
    for (const origin of [`http://127.0.0.1:${port}`, `http://localhost:${port}`, 'https://ui.example']) {
      expect([origin, await code({ origin })]).toEqual([origin, 200])
    }
    for (const origin of [
      'null',
      'http://evil.example',
      `http://127.0.0.1:${port + 1}`,
      `https://127.0.0.1:${port}`,
      'http://ui.example',
      'https://ui.example.evil',
      `http://127.0.0.1:${port}, http://evil.example`,
      ''
    ]) {
      expect([origin, await code({ origin })]).toEqual([origin, 'ORIGIN_NOT_ALLOWED'])
    }
    expect(await code({ 'sec-fetch-site': 'cross-site' })).toBe('ORIGIN_NOT_ALLOWED')
    expect(await code({ 'sec-fetch-site': 'same-origin' })).toBe(200)
    expect(await code({ 'sec-fetch-site': 'cross-site', origin: 'https://ui.example' })).toBe(200)
    expect(await code({ 'sec-fetch-site': 'cross-site', origin: `http://127.0.0.1:${port}` })).toBe(
      'ORIGIN_NOT_ALLOWED'
    )
  })

  it('checks in order: Host, Origin, Sec-Fetch-Site, a token in the URL, the token', async () => {
    const { port } = await startWireApp()
    const wrong = { Host: 'evil.example', Origin: 'http://evil.example', 'Sec-Fetch-Site': 'cross-site' }
    const own = { Host: `127.0.0.1:${port}` }
    const code = async (path: string, headers: Record<string, string>): Promise<string | undefined> =>
      /"code":"(\w+)"/.exec(await sendRaw(port, get(path, headers)))?.[1]
    expect(await code('/tokens?token=x', wrong)).toBe('HOST_NOT_ALLOWED')
    expect(await code('/tokens?token=x', { ...wrong, ...own })).toBe('ORIGIN_NOT_ALLOWED')
    expect(await code('/tokens?token=x', { ...own, 'Sec-Fetch-Site': 'cross-site' })).toBe('ORIGIN_NOT_ALLOWED')
    expect(await code('/tokens?token=x', own)).toBe('TOKEN_IN_URL')
    expect(await code('/tokens', own)).toBe('UNAUTHENTICATED')
  })
})
