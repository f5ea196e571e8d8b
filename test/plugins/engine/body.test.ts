import { Type } from '@sinclair/typebox'
import { describe, expect, it } from 'vitest'
import { startWireApp, type WireApp } from '../../helpers/wire-app.ts'

const echo = () =>
  startWireApp({
    settings: { 'http.bodyLimitBytes': '100000' },
    routes: (app) => {
      app.post(
        '/echo',
        { config: { action: 'catalogue:read', dataPaths: ['arguments', 'calls.*.arguments'], keepsBodyText: true } },
        async (request, reply) => reply.send({ body: request.body, text: request.bodyText })
      )
      app.post('/plain', { config: { action: 'catalogue:read' } }, async (request) => ({
        text: request.bodyText ?? null
      }))
    }
  })

async function post({ call }: WireApp, path: string, body: string | Uint8Array<ArrayBuffer>) {
  const answer = await call(path, { method: 'POST', body, headers: { 'content-type': 'application/json' } })
  const text = await answer.text()
  return {
    status: answer.status,
    text,
    json: JSON.parse(text) as { error?: { code: string; message: string }; body?: unknown; text?: string }
  }
}

describe('bodies', () => {
  it('keep their text for the routes that ask for it, and only there', async () => {
    const app = await echo()
    const text = '{ "b": 1, "2": 12345678901234567890, "a": [1.0] }'
    expect((await post(app, '/echo', text)).json.text).toBe(text)
    expect((await post(app, '/plain', text)).json.text).toBeNull()
  })

  it('that are no JSON are BAD_JSON, without quoting them', async () => {
    const app = await echo()
    for (const body of [
      ' ',
      '{',
      '{"a":canary}',
      "{'a':1}",
      '{"a":1,}',
      'NaN',
      '{"a":1}x',
      '\u0000',
      new Uint8Array([0x22, 0xff, 0x22])
    ]) {
      const { status, json, text } = await post(app, '/echo', body)
      expect([body, status, json.error?.code]).toEqual([body, 400, 'BAD_JSON'])
      expect(text).not.toContain('canary')
    }
  })

  it('that are empty are none where none is needed, whatever the type says, and BAD_JSON elsewhere', async () => {
    const app = await startWireApp({
      routes: (server) => {
        const config = { action: 'catalogue:read' } as const
        const object = Type.Object({})
        server.post('/none', { config }, async ({ body }) => ({ body: body ?? 'none' }))
        server.delete('/none', { config }, async ({ body }) => ({ body: body ?? 'none' }))
        for (const [path, body] of Object.entries({ '/optional': Type.Optional(object), '/object': object })) {
          server.post(path, { config, schema: { body } }, async (request) => ({ body: request.body ?? 'none' }))
        }
      }
    })
    for (const path of ['/none', '/optional']) expect((await post(app, path, '')).json.body).toBe('none')
    const headers = { 'content-type': 'application/json' }
    const deleted = await app.call('/none', { method: 'DELETE', headers })
    expect([deleted.status, await deleted.json()]).toEqual([200, { body: 'none' }])
    const { status, json } = await post(app, '/object', '')
    expect([status, json.error?.code]).toEqual([400, 'BAD_JSON'])
    expect((await post(app, '/optional', ' ')).json.error?.code).toBe('BAD_JSON')
  })

  it('nested deeper than 256 are BAD_JSON, at 256 they are not', async () => {
    const app = await echo()
    const nested = (depth: number, open = '[', close = ']') => open.repeat(depth) + close.repeat(depth)
    expect((await post(app, '/echo', nested(256))).status).toBe(200)
    expect((await post(app, '/echo', nested(257))).json.error?.code).toBe('BAD_JSON')
    expect((await post(app, '/echo', '{"a":'.repeat(257) + '1' + '}'.repeat(257))).json.error?.code).toBe('BAD_JSON')
    expect((await post(app, '/echo', '['.repeat(90_000))).json.error?.code).toBe('BAD_JSON')
    expect((await post(app, '/echo', JSON.stringify('['.repeat(10_000)))).status).toBe(200)
  })

  it('keys that pollute are refused by name, but where they are data', async () => {
    const app = await echo()
    for (const [body, key] of [
      ['{"__proto__":{"polluted":1}}', '$.__proto__'],
      ['{"a":[{"__proto__":1}]}', '$.a[0].__proto__'],
      ['{"\\u005f_proto__":1}', '$.__proto__'],
      ['{"constructor":{"prototype":{"polluted":1}}}', '$.constructor'],
      ['{"calls":[{"arguments":1},{"more":{"__proto__":1}}]}', '$.calls[1].more.__proto__'],
      ['{"argument":{"__proto__":1}}', '$.argument.__proto__'],
      ['{"nested":{"arguments":{"__proto__":1}}}', '$.nested.arguments.__proto__']
    ] as const) {
      const { status, json } = await post(app, '/echo', body)
      expect([body, status, json.error?.code]).toEqual([body, 400, 'BAD_JSON'])
      expect(json.error?.message).toContain(key)
    }
    for (const body of [
      '{"arguments":{"__proto__":{"a":1},"constructor":{"prototype":1}}}',
      '{"calls":[{"arguments":{"__proto__":1}},{"arguments":[{"__proto__":1}]}]}',
      '{"constructor":1}'
    ]) {
      const { status, text } = await post(app, '/echo', body)
      expect([body, status]).toEqual([body, 200])
      expect(text).toContain(`{"body":${body},`)
    }
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined()
    expect(Object.keys(Object.prototype)).toEqual([])
  })

  it('beyond the limit are 413, said or streamed', async () => {
    const app = await echo()
    const big = JSON.stringify('a'.repeat(100_000))
    expect((await post(app, '/echo', big)).json.error?.code).toBe('BODY_TOO_LARGE')
    const stream = new Blob([big]).stream()
    const answer = await app
      .call('/echo', {
        method: 'POST',
        body: stream,
        headers: { 'content-type': 'application/json' },
        duplex: 'half'
      } as never)
      .catch((error: Error & { cause?: { code?: string } }) => error)
    // The connection is closed on a body that goes on, which a client may see before it sees the answer.
    expect(answer instanceof Error || answer.status === 413).toBe(true)
  })
})
