import { connect } from 'node:net'
import { expect, it } from 'vitest'
import { startApp } from '../helpers/app.ts'
import { statusOf } from '../helpers/raw-http.ts'
import { until } from '../helpers/until.ts'

const idOf = (token: string): string => token.split('_')[1] as string

/** The status of a request whose token ends once its head was read, and before its body is sent. */
async function statusOfLateBody(
  port: number,
  token: string,
  { path, body, end }: { path: string; body: string; end: () => Promise<unknown> }
): Promise<number> {
  const socket = connect(port, '127.0.0.1')
  let received = ''
  socket.on('data', (chunk: Buffer) => (received += chunk.toString()))
  socket.write(
    `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${token}\r\nExpect: 100-continue\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`
  )
  await until(() => received.includes('100 Continue\r\n\r\n'))
  await end()
  socket.write(body)
  const answer = (): string => received.slice(received.indexOf('\r\n\r\n') + 4)
  await until(() => answer().includes('\r\n\r\n'))
  socket.destroy()
  return statusOf(answer())
}

it('S28 a request whose token ends before its body is there does nothing', async () => {
  const { app, served } = await startApp()
  const requests = {
    '/tokens': { role: 'admin', scope: 'global' },
    '/tickets': {},
    '/invoke': { name: 'echo' },
    '/invoke/batch': { calls: [{ name: 'echo' }] },
    '/scopes/global/mcp': { jsonrpc: '2.0', id: 1, method: 'initialize', params: {} }
  }
  for (const [path, json] of Object.entries(requests)) {
    const token = await served.tokenFor('admin')
    const end = () => app.tokens.revoke(idOf(token))
    const status = await statusOfLateBody(served.port, token, { path, body: JSON.stringify(json), end })
    expect([path, status]).toEqual([path, 401])
  }
  expect(app.tokens.list()).toHaveLength(1)
  expect(app.eventLog.head).toBe(-1)
})

it('S28 a long poll ends with its token', async () => {
  const app = await startApp()
  const call = app.post('/invoke', { name: 'gate', callId: 'c1', arguments: { id: 'c1' } })
  await app.entered('c1')
  const token = await app.served.tokenFor('observer')
  const poll = app.served.call('/calls/default/c1?waitMs=60000', { token })
  // Only then has the server heard of the poll.
  await app.report('c1')
  await app.app.tokens.revoke(idOf(token))
  expect(await (await poll).json()).toMatchObject({ state: 'running' })
  app.release('c1')
  await call
})
