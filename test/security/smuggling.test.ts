import { describe, expect, it } from 'vitest'
import { sendRaw, statusOf } from '../helpers/raw-http.ts'
import { startWireApp } from '../helpers/wire-app.ts'

const line = (...lines: string[]): string => lines.join('\r\n')

/** Each is read differently by some proxy, so it must not be read at all. */
const requests: Record<string, (host: string) => string> = {
  'both a Content-Length and chunks': (host) =>
    line('POST /tickets HTTP/1.1', host, 'Content-Length: 6', 'Transfer-Encoding: chunked', '', '0', '', 'X'),
  'two Content-Lengths': (host) =>
    line('POST /tickets HTTP/1.1', host, 'Content-Length: 2', 'Content-Length: 3', '', '{}x'),
  'chunked, identity': (host) =>
    line('POST /tickets HTTP/1.1', host, 'Transfer-Encoding: chunked, identity', '', '2', '{}', '0', '', ''),
  'a space before the colon': (host) =>
    line('POST /tickets HTTP/1.1', host, 'Transfer-Encoding : chunked', '', '0', '', ''),
  'bare line feeds': (host) => `POST /tickets HTTP/1.1\n${host}\nContent-Length: 2\n\n{}`,
  'a folded header': (host) => line('POST /tickets HTTP/1.1', host, 'X-A: b', ' c', 'Content-Length: 2', '', '{}'),
  'a carriage return alone before the body': (host) => `GET /tokens HTTP/1.1\r\n${host}\r\nX-A: b\r\n\rX\r\n\r\n`,
  'no Host': () => line('GET /tokens HTTP/1.1', '', '')
}

describe('S18 requests that proxies read differently', () => {
  for (const [name, request] of Object.entries(requests)) {
    it(`S18 ${name} is answered 400 and ends the connection`, async () => {
      const { port } = await startWireApp()
      const answer = await sendRaw(port, request(`Host: 127.0.0.1:${port}`))
      expect(statusOf(answer)).toBe(400)
      expect(answer.match(/HTTP\/1\.1 /g)).toHaveLength(1)
      expect(answer).toMatch(/connection: close/i)
    })
  }

  it.each([
    ['400, with a token', 400],
    ['401, without one', 401]
  ])('S18 a body that turns out to be unreadable is answered once: %s', async (_answer, status) => {
    const { port, tokenFor } = await startWireApp()
    const authorization = status === 400 ? [`Authorization: Bearer ${await tokenFor('admin')}`] : []
    const head = [
      'POST /tickets HTTP/1.1',
      `Host: 127.0.0.1:${port}`,
      ...authorization,
      'Content-Type: application/json',
      'Transfer-Encoding: chunked'
    ]
    const answer = await sendRaw(port, line(...head, '', '2;a\nb', '{}', '0', '', ''))
    expect(statusOf(answer)).toBe(status)
    expect(answer.match(/HTTP\/1\.1 /g)).toHaveLength(1)
  })

  it('answers what is no HTTP in the one shape, without quoting it', async () => {
    const { port } = await startWireApp()
    const answer = await sendRaw(port, 'GET <script> nonsense\r\n\r\n')
    expect(statusOf(answer)).toBe(400)
    const body = JSON.parse(answer.slice(answer.indexOf('\r\n\r\n') + 4)) as { error: { code: string } }
    expect(body.error.code).toBe('BAD_REQUEST')
    expect(answer).not.toContain('script')
  })

  it('answers headers beyond the limit with 431', async () => {
    const { port } = await startWireApp()
    const answer = await sendRaw(port, `GET /tokens HTTP/1.1\r\nHost: x\r\nX-A: ${'a'.repeat(20_000)}\r\n\r\n`)
    expect(statusOf(answer)).toBe(431)
  })

  it('S18 what comes after as many header lines as are read is not overlooked', async () => {
    const { port, admin } = await startWireApp()
    const own = [
      'GET /tokens HTTP/1.1',
      `Host: 127.0.0.1:${port}`,
      `Authorization: Bearer ${admin}`,
      'Connection: close'
    ]
    const filled = (count: number): string[] => Array.from({ length: count }, (_, at) => `X-${at}: y`)
    for (const last of ['Origin: https://evil.example', 'Host: evil.example', 'Content-Encoding: gzip']) {
      expect([last, statusOf(await sendRaw(port, line(...own, ...filled(150), last, '', '')))]).toEqual([last, 400])
    }
    expect(statusOf(await sendRaw(port, line(...own, ...filled(97), '', '')))).toBe(200)
  })

  it('refuses a second Host header', async () => {
    const { port } = await startWireApp()
    const own = `Host: 127.0.0.1:${port}`
    const answer = await sendRaw(
      port,
      line('GET /tokens HTTP/1.1', own, 'Host: evil.example', 'Connection: close', '', '')
    )
    expect(statusOf(answer)).toBe(403)
    expect(answer).toContain('HOST_NOT_ALLOWED')
  })
})
