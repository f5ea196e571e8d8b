import { describe, expect, it } from 'vitest'
import { CodedError, type ErrorCode, errorTable, RequestError } from '../../../server/errors.ts'
import { StoreUnavailableError } from '../../../server/event-log/event-log.ts'
import { toWireError } from '../../../plugins/engine/errors.ts'
import { sendRaw } from '../../helpers/raw-http.ts'
import { startWireApp } from '../../helpers/wire-app.ts'

const throwing: Record<string, () => unknown> = {
  request: () =>
    new RequestError('UNKNOWN_CALL', 'no such call', { details: { callId: 'c' }, headers: { 'x-more': '1' } }),
  store: () => new StoreUnavailableError('disk /secret/path is full'),
  coded: () => new CodedError('UNSUPPORTED_SCHEMA', 'the schema has a $dynamicRef'),
  'coded-inside': () => new CodedError('LOG_CORRUPT', 'canary'),
  'coded-unknown': () => new CodedError('NOT_IN_THE_TABLE', 'canary'),
  'coded-member': () => new CodedError('constructor', 'canary'),
  unknown: () => new Error('canary in the message'),
  'with-status': () => Object.assign(new Error('canary'), { statusCode: 418 }),
  string: () => 'canary',
  nothing: () => undefined,
  frozen: () => Object.freeze(new Error('canary'))
}

async function answers() {
  return await startWireApp({
    routes: (app) => {
      app.get('/throw/:what', { config: { action: 'catalogue:read' } }, async ({ params }) => {
        throw throwing[(params as { what: string }).what]?.()
      })
      app.get<{ Params: { status: ErrorCode } }>(
        '/code/:status',
        { config: { action: 'catalogue:read' } },
        async ({ params }) => {
          throw new RequestError(params.status)
        }
      )
      app.get('/late', { config: { action: 'catalogue:read' } }, async (_request, reply) => {
        reply.raw.write('x')
        throw new Error('canary')
      })
    }
  })
}

describe('errors', () => {
  it('every code of the table has its status, its message and the one shape', async () => {
    const { call } = await answers()
    for (const [code, { status, message }] of Object.entries(errorTable)) {
      const answer = await call(`/code/${code}`)
      expect([code, answer.status]).toEqual([code, status])
      const requestId = answer.headers.get('x-request-id')
      expect(await answer.json()).toEqual({ error: { code, message }, requestId })
      expect([code, answer.headers.get('retry-after')]).toEqual([code, status === 429 || status === 503 ? '1' : null])
      expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8')
    }
  })

  it('tells what is meant for the client, and of the rest neither message nor stack', async () => {
    const { call } = await answers()
    const codes: Record<string, string> = {}
    for (const what of Object.keys(throwing)) {
      const answer = await call(`/throw/${what}`)
      const text = await answer.text()
      expect([what, text]).toEqual([what, expect.not.stringMatching(/canary|secret|node_modules|\.ts/)])
      codes[what] = `${answer.status} ${(JSON.parse(text) as { error: { code: string } }).error.code}`
    }
    expect(codes).toEqual({
      request: '404 UNKNOWN_CALL',
      store: '503 STORE_UNAVAILABLE',
      coded: '422 UNSUPPORTED_SCHEMA',
      'coded-inside': '503 LOG_CORRUPT',
      'coded-unknown': '500 INTERNAL',
      'coded-member': '500 INTERNAL',
      unknown: '500 INTERNAL',
      'with-status': '500 INTERNAL',
      string: '500 INTERNAL',
      nothing: '500 INTERNAL',
      frozen: '500 INTERNAL'
    })
    const answer = await call('/throw/request')
    expect(answer.headers.get('x-more')).toBe('1')
    expect(await answer.json()).toMatchObject({ error: { message: 'no such call', details: { callId: 'c' } } })
  })

  it('a failure after the answer has begun cuts it off', async () => {
    const { call } = await answers()
    await expect(call('/late').then((answer) => answer.text())).rejects.toThrow()
    expect((await call('/tokens')).status).toBe(200)
  })

  it('an unknown path is 404, a wrong method 405 with what is allowed', async () => {
    const { call } = await answers()
    for (const path of ['/', '/nowhere', '/tokens/', '/tokens/a/b', '/code', '//tokens', '/TOKENS']) {
      const answer = await call(path)
      expect([path, answer.status, ((await answer.json()) as { error: { code: string } }).error.code]).toEqual([
        path,
        404,
        'NOT_FOUND'
      ])
    }
    for (const [path, method, allowed] of [
      ['/tokens', 'PUT', 'GET, HEAD, POST'],
      ['/tokens?limit=1', 'DELETE', 'GET, HEAD, POST'],
      ['/tokens/x', 'PUT', 'DELETE, GET, HEAD'],
      ['/tickets', 'GET', 'POST'],
      ['/tickets', 'OPTIONS', 'POST'],
      ['/health/live', 'POST', 'GET, HEAD']
    ] as const) {
      const answer = await call(path, { method })
      expect([path, method, answer.status, answer.headers.get('allow')]).toEqual([path, method, 405, allowed])
      expect(await answer.json()).toMatchObject({ error: { code: 'METHOD_NOT_ALLOWED' } })
    }
  })

  it('a URL that cannot be decoded is 400 in the one shape, on an upgrade too', async () => {
    const { port } = await answers()
    for (const extra of ['', 'Upgrade: websocket\r\n']) {
      const answer = await sendRaw(
        port,
        `GET /tokens/%zz HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: ${extra ? 'Upgrade' : 'close'}\r\n${extra}\r\n`
      )
      expect(answer).toMatch(/^HTTP\/1\.1 400 /)
      expect(JSON.parse(answer.slice(answer.indexOf('\r\n\r\n') + 4))).toEqual({
        error: { code: 'BAD_REQUEST', message: errorTable.BAD_REQUEST.message },
        requestId: expect.any(String)
      })
    }
  })

  it('a body that its client broke off is no fault of the server', () => {
    const aborted = Object.assign(new Error('aborted'), { code: 'ECONNRESET' })
    expect(toWireError(Object.assign(aborted, { statusCode: 400 })).code).toBe('BAD_REQUEST')
    expect(toWireError(Object.assign(new Error('of a backend'), { code: 'ECONNRESET' })).code).toBe('INTERNAL')
  })

  it('no CORS is offered', async () => {
    const { call } = await answers()
    const answer = await call('/tickets', {
      method: 'OPTIONS',
      headers: { 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization' }
    })
    expect([...answer.headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([])
  })
})
