import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { IncomingHttpHeaders } from 'node:http'
import { describe, expect, it } from 'vitest'
import { HttpCredentials, type CredentialSettings } from '../../../server/executors/http-executor-credentials.ts'
import { MappedExecutor } from '../../../server/executors/import/mapped-executor.ts'
import {
  mapRequest,
  type ParameterMapping,
  type RequestMapping
} from '../../../server/executors/import/request-mapping.ts'
import type { JsonValue } from '../../../server/json/lossless.ts'
import { httpToolClient, wireCall } from '../../helpers/http-tools.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'
import { serveWeb } from '../../helpers/web-server.ts'

const parameter = (more: Partial<ParameterMapping>): ParameterMapping => ({
  argument: 'p',
  name: 'p',
  in: 'query',
  style: 'form',
  explode: true,
  ...more
})
const mapping = (parameters: ParameterMapping[], more: Partial<RequestMapping> = {}): RequestMapping => ({
  method: 'GET',
  baseUrl: 'https://api.example/v1',
  path: '/x',
  parameters,
  ...more
})

describe('where arguments go', () => {
  const rgb = { R: 100, G: 200 }
  it.each<[string, Partial<ParameterMapping>, JsonValue, string]>([
    ['form, exploded: a value', {}, 'blue', 'p=blue'],
    ['form, exploded: an array', {}, ['a', 'b'], 'p=a&p=b'],
    ['form, exploded: an object', {}, rgb, 'R=100&G=200'],
    ['form: an array', { explode: false }, ['a', 'b'], 'p=a,b'],
    ['form: an object', { explode: false }, rgb, 'p=R,100,G,200'],
    ['spaceDelimited', { style: 'spaceDelimited', explode: false }, ['a', 'b'], 'p=a%20b'],
    ['pipeDelimited', { style: 'pipeDelimited', explode: false }, ['a', 'b'], 'p=a%7Cb'],
    ['deepObject', { style: 'deepObject' }, rgb, 'p%5BR%5D=100&p%5BG%5D=200'],
    ['JSON', { style: 'json' }, { a: [1] }, 'p=%7B%22a%22%3A%5B1%5D%7D'],
    ['what is more than a word', { name: 'a&b' }, 'x&y=z#?/ü\n', 'a%26b=x%26y%3Dz%23%3F%2F%C3%BC%0A'],
    ['false, nought, null', {}, [false, 0, null], 'p=false&p=0&p='],
    ['an empty array', {}, [], ''],
    ['deeper than the style goes', {}, [[1]], 'p=%5B1%5D']
  ])('of a query, %s', (_name, given, value, query) => {
    expect(mapRequest(mapping([parameter(given)]), { p: value }).query.join('&')).toBe(query)
  })

  it('of a path, a header, a cookie; what is absent is not sent', () => {
    const simple = { style: 'simple', explode: false } as const
    const parameters = [
      parameter({ ...simple, argument: 'id', name: 'id', in: 'path' }),
      parameter({ ...simple, argument: 'ids', name: 'X-Ids', in: 'header' }),
      parameter({ ...simple, argument: 'o', name: 'X-Object', in: 'header', explode: true }),
      parameter({ argument: 'c', name: 'c', in: 'cookie' }),
      parameter({ argument: 'd', name: 'd', in: 'cookie' }),
      parameter({ argument: 'q', name: 'q' })
    ]
    const mapped = mapRequest(mapping(parameters, { path: '/a/{id}/b.{id}' }), {
      id: '1/../2?',
      ids: [1, 2],
      o: rgb,
      c: 'x; admin=1',
      d: 'y'
    })
    expect(mapped).toEqual({
      path: '/a/1%2F..%2F2%3F/b.1%2F..%2F2%3F',
      query: [],
      headers: { 'x-ids': '1,2', 'x-object': 'R=100,G=200', cookie: 'c=x%3B%20admin%3D1; d=y' }
    })
  })

  it('a part of a path that would name another place is refused, and so is a header of two lines', () => {
    const path = mapping([parameter({ in: 'path', style: 'simple', explode: false })], { path: '/a/{p}' })
    for (const p of ['', '.', '..', []]) {
      expect(() => mapRequest(path, { p })).toThrow(expect.objectContaining({ code: 'INVALID_ARGS' }))
    }
    expect(mapRequest(path, { p: '...' }).path).toBe('/a/...')
    expect(mapRequest(path, { p: '%2e%2e' }).path).toBe('/a/%252e%252e')
    expect(() => mapRequest(path, { p: '\ud800' })).toThrow(expect.objectContaining({ code: 'INVALID_ARGS' }))
    const header = mapping([parameter({ in: 'header', style: 'simple', explode: false })])
    for (const p of ['a\r\nx: y', 'a\nb', 'ü', '\0']) {
      expect(() => mapRequest(header, { p })).toThrow(expect.objectContaining({ code: 'INVALID_ARGS' }))
    }
  })
})

describe('a call', () => {
  const answering = (status: number, headers: Record<string, string>, body = '') =>
    serveWeb((_request, response) => void response.writeHead(status, headers).end(body))
  const run = (origin: string, more: Partial<RequestMapping> = {}, args: JsonValue = {}) =>
    new MappedExecutor({
      mapping: mapping([], { baseUrl: origin, ...more }),
      client: httpToolClient(),
      credentials: new HttpCredentials({})
    }).run(wireCall({ arguments: args }))

  it('gives JSON as it is, text as text, nothing as null', async () => {
    const json = await answering(200, { 'content-type': 'application/vnd.x+json' }, '{"a":[1]}')
    expect(await run(json.origin)).toEqual({ value: { a: [1] } })
    expect(await run((await answering(200, { 'content-type': 'text/plain' }, 'hällo')).origin)).toEqual({
      value: 'hällo'
    })
    expect(await run((await answering(204, {})).origin, { method: 'DELETE' })).toEqual({ value: null })
    expect(await run((await answering(200, { 'content-length': '5' })).origin, { method: 'HEAD' })).toEqual({
      value: null
    })
    const image = await answering(200, { 'content-type': 'image/png' }, 'x')
    await expect(run(image.origin)).rejects.toMatchObject({ code: 'HTTP_TOOL_BAD_ANSWER' })
  })

  it('that fails says what the API says of it', async () => {
    const { origin } = await answering(404, { 'content-type': 'application/json' }, '{"detail":"no such pet"}')
    await expect(run(origin)).rejects.toMatchObject({
      code: 'HTTP_TOOL_STATUS',
      message: expect.stringMatching(/status 404: \{"detail":"no such pet"\}$/)
    })
    const long = await answering(500, { 'content-type': 'text/plain' }, 'x'.repeat(50_000))
    const failure = (await run(long.origin).catch((error: unknown) => error)) as Error
    expect(failure.message.length).toBeLessThan(2_200)
  })

  it('with a body says of what kind', async () => {
    let got: unknown
    const server = await serveWeb((request, response) => {
      let text = ''
      request.on('data', (piece) => (text += String(piece)))
      request.on('end', () => {
        got = [request.method, request.url, request.headers['content-type'], text]
        response.writeHead(204).end()
      })
    })
    const body = { argument: 'body', contentType: 'application/merge-patch+json' }
    await run(`${server.origin}/base`, { method: 'PATCH', body }, { body: { a: null } })
    expect(got).toEqual(['PATCH', '/base/x', 'application/merge-patch+json', '{"a":null}'])
    await run(`${server.origin}/base`, { method: 'POST', body }, {})
    expect(got).toEqual(['POST', '/base/x', undefined, ''])
  })
})

describe('credentials', () => {
  async function fixture() {
    const seen: { headers: IncomingHttpHeaders; url?: string | undefined }[] = []
    const server = await serveWeb((request, response) => {
      seen.push({ headers: request.headers, url: request.url })
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ headers: request.headers, url: request.url }))
    })
    const secretFile = join(temporaryDirectory(), 'secret')
    writeFileSync(secretFile, 's3cr3t&value\n')
    const base = { origins: [server.origin], secretFile }
    const entries: Record<string, CredentialSettings> = {
      bearer: { type: 'bearer', ...base },
      basic: { type: 'basic', user: 'me', ...base },
      header: { type: 'apiKey', in: 'header', name: 'X-Key', ...base },
      query: { type: 'apiKey', in: 'query', name: 'key', ...base },
      elsewhere: { type: 'bearer', ...base, origins: ['https://api.example'] },
      gone: { type: 'bearer', ...base, secretFile: `${secretFile}.gone` }
    }
    const credentials = new HttpCredentials(entries)
    const client = httpToolClient()
    const run = (auth: string) =>
      new MappedExecutor({ mapping: mapping([], { baseUrl: server.origin, auth }), client, credentials }).run(
        wireCall()
      )
    return { run, seen, credentials, secretFile, entries }
  }

  it('go along, and never come back', async () => {
    const { run, seen, secretFile } = await fixture()
    const pair = Buffer.from('me:s3cr3t&value').toString('base64')
    for (const auth of ['bearer', 'basic', 'header', 'query']) {
      const text = JSON.stringify(await run(auth))
      expect(text).toContain('[secret]')
      for (const hidden of ['s3cr3t', pair]) expect(text).not.toContain(hidden)
    }
    expect(seen[0]?.headers.authorization).toBe('Bearer s3cr3t&value')
    expect(seen[1]?.headers.authorization).toBe(`Basic ${pair}`)
    expect(seen[2]?.headers['x-key']).toBe('s3cr3t&value')
    expect(seen[3]?.url).toBe('/x?key=s3cr3t%26value')
    writeFileSync(secretFile, 'another-one')
    await run('bearer')
    expect(seen[4]?.headers.authorization).toBe('Bearer another-one')
  })

  it('that are not for a server, not there or not readable end the call before anything is sent', async () => {
    const { run, seen } = await fixture()
    for (const auth of ['elsewhere', 'gone', 'none', '__proto__']) {
      await expect(run(auth)).rejects.toMatchObject({ code: 'HTTP_TOOL_CREDENTIALS', effect: 'none' })
    }
    expect(seen).toEqual([])
  })

  it('are for those scopes that they name, and for admins; one that cannot be read is known at the start', async () => {
    const { entries, credentials } = await fixture()
    await expect(credentials.check()).rejects.toThrow('httpTools.credentials.gone')
    const scoped = new HttpCredentials({ a: { ...entries['bearer']!, scopes: ['team-a'] }, b: entries['bearer']! })
    await scoped.check()
    const usable = (name: string, chain: string[], isAdmin = false): boolean => {
      try {
        scoped.assertUsable(name, { chain, isAdmin })
        return true
      } catch {
        return false
      }
    }
    expect(usable('a', ['team-a', 'global'])).toBe(true)
    expect(usable('a', ['below', 'team-a', 'global'])).toBe(true)
    expect(usable('a', ['team-b', 'global'])).toBe(false)
    expect(usable('b', ['team-a', 'global'])).toBe(false)
    expect(usable('b', ['global'], true)).toBe(true)
    expect(usable('c', ['global'], true)).toBe(false)
  })
})
