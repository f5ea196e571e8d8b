import { describe, expect, it } from 'vitest'
import { sendRaw, statusOf } from '../helpers/raw-http.ts'
import { startWireApp } from '../helpers/wire-app.ts'

describe('S3 bodies that a form or a simple request can send', () => {
  it('S3 everything but application/json is 415', async () => {
    const { call } = await startWireApp()
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'application/jsonp',
      'application/json-patch+json',
      'text/plain; application/json',
      'application/json, text/plain',
      'application/json\tx',
      'application',
      'application/json; charset=utf-16',
      'application/json; charset="latin1"'
    ]) {
      const answer = await call('/tickets', { method: 'POST', body: '{}', headers: { 'content-type': type } })
      expect([type, answer.status]).toEqual([type, 415])
      expect(((await answer.json()) as { error: { code: string } }).error.code).toBe('UNSUPPORTED_MEDIA_TYPE')
    }
    for (const type of ['application/json', 'Application/JSON; charset=UTF-8', 'application/json;charset="utf-8"']) {
      const answer = await call('/tickets', { method: 'POST', body: '{}', headers: { 'content-type': type } })
      expect([type, answer.status]).toEqual([type, 201])
    }
  })

  it('S3 a body without a content type is 415', async () => {
    const { port, admin } = await startWireApp()
    const head = `POST /tickets HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${admin}\r\nConnection: close\r\n`
    expect(statusOf(await sendRaw(port, `${head}Content-Length: 2\r\n\r\n{}`))).toBe(415)
    expect(statusOf(await sendRaw(port, `${head}Content-Type: \r\nContent-Length: 2\r\n\r\n{}`))).toBe(415)
  })

  it('any Content-Encoding is 415, also one that changes nothing', async () => {
    const { call } = await startWireApp()
    for (const encoding of ['gzip', 'br', 'zstd', 'identity', '']) {
      const answer = await call('/tickets', { json: {}, headers: { 'content-encoding': encoding } })
      expect([encoding, answer.status]).toEqual([encoding, 415])
    }
  })
})
