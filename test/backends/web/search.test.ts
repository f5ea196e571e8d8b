import type { RequestListener } from 'node:http'
import { text } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { HttpSearch, type HttpSearchService } from '../../../server/backends/web/http-search.ts'
import { SearxngSearch } from '../../../server/backends/web/searxng-search.ts'
import { until } from '../../helpers/until.ts'
import { serveWeb } from '../../helpers/web-server.ts'

const signal = new AbortController().signal
const common = { timeoutMs: 30_000, userAgent: 'test/1' }
const asJson =
  (value: unknown, status = 200): RequestListener =>
  (_request, response) =>
    void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))

const codeOf = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    (error: { code?: string }) => error.code ?? String(error)
  )

describe('SearXNG', () => {
  const open = async (listener: RequestListener, options: object = {}) => {
    const server = await serveWeb(listener)
    const search = new SearxngSearch({ ...common, url: server.origin, ...options })
    return { server, search: (query: string, maxResults = 8) => search.search(query, { maxResults, signal }) }
  }

  it('is asked for JSON and gives sources and an answer', async () => {
    const { server, search } = await open(
      asJson({
        answers: [{ answer: ' forty-two ', url: 'http://x.test/' }],
        results: [
          { url: 'https://a.test/x', title: 'A\n  title', content: 'about', publishedDate: '2026-01-02T00:00:00' },
          { url: 'http://b.test', title: '', content: null }
        ]
      })
    )
    expect(await search('what & why?')).toEqual({
      content: 'forty-two',
      sources: [
        { url: 'https://a.test/x', title: 'A title', snippet: 'about', publishedAt: '2026-01-02T00:00:00' },
        { url: 'http://b.test/' }
      ],
      truncated: false
    })
    expect(server.asked).toEqual(['GET /search?q=what+%26+why%3F&format=json'])
    await until(() => server.sockets.size === 0)
  })

  it('may lie below a path, and answer in plain text', async () => {
    const server = await serveWeb(asJson({ answers: ['plain'], results: [] }))
    for (const url of [`${server.origin}/sub`, `${server.origin}/sub/`]) {
      const search = new SearxngSearch({ ...common, url })
      expect(await search.search('q', { maxResults: 8, signal })).toEqual({
        content: 'plain',
        sources: [],
        truncated: false
      })
    }
    expect(new Set(server.asked)).toEqual(new Set(['GET /sub/search?q=q&format=json']))
  })

  it('tells when there was more', async () => {
    const results = Array.from({ length: 9 }, (_, at) => ({ url: `http://${at}.test/` }))
    const { search } = await open(asJson({ results }))
    expect(await search('q', 8)).toMatchObject({ sources: { length: 8 }, truncated: true })
    expect(await search('q', 9)).toMatchObject({ sources: { length: 9 }, truncated: false })
  })

  it('passes over what is no source, and shortens the rest', async () => {
    const long = 'x'.repeat(5_000)
    const { search } = await open(
      asJson({
        results: [
          ...[
            null,
            1,
            'x',
            [],
            {},
            { url: 'javascript:alert(1)' },
            { url: 'file:///etc/passwd' },
            { url: 7 },
            { url: 'x' }
          ],
          { url: `http://a.test/${long}` },
          { url: 'http://a.test/', title: long, content: `\ud83d${long}`, publishedDate: { no: 'date' } }
        ]
      })
    )
    const { sources } = await search('q')
    expect(sources).toHaveLength(1)
    expect(sources[0]?.title).toHaveLength(300)
    expect(sources[0]?.snippet).toHaveLength(1_000)
    expect(sources[0]?.snippet?.startsWith('\ufffdx')).toBe(true)
    expect(sources[0]).not.toHaveProperty('publishedAt')
  })

  it.each([
    ['a status', asJson({}, 503)],
    ['a redirect', asJson({}, 302)],
    ['no JSON', ((_request, response) => void response.end('<html>')) as RequestListener],
    ['too much', ((_request, response) => void response.end(`"${'x'.repeat(3_000_000)}"`)) as RequestListener],
    ['a connection that breaks', ((request) => void request.socket.destroy()) as RequestListener]
  ])('WEB_PROVIDER_ERROR for %s', async (_name, listener) => {
    const { server, search } = await open(listener)
    expect(await codeOf(search('q'))).toBe('WEB_PROVIDER_ERROR')
    await until(() => server.sockets.size === 0)
  })

  it.each([[null], [[]], ['x'], [{ results: {} }], [{ results: null, answers: {} }], [{ answers: [null] }]])(
    'finds nothing in %j',
    async (answer) => {
      const { search } = await open(asJson(answer))
      expect(await search('q')).toEqual({ sources: [], truncated: false })
    }
  )

  it('ends in time, and by an abort', async () => {
    const { server, search } = await open(() => {}, { timeoutMs: 100 })
    expect(await codeOf(search('q'))).toBe('WEB_SEARCH_TIMEOUT')
    const controller = new AbortController()
    const patient = new SearxngSearch({ ...common, url: server.origin })
    const searching = codeOf(patient.search('q', { maxResults: 8, signal: controller.signal }))
    await until(() => server.asked.length === 2)
    controller.abort()
    expect(await searching).toBe('WEB_ABORTED')
    await until(() => server.sockets.size === 0)
  })
})

describe('a configured service', () => {
  it('is asked by URL, with a key in a header', async () => {
    let headers: Record<string, unknown> = {}
    const server = await serveWeb((request, response) => {
      headers = request.headers
      asJson({
        web: { results: [{ link: 'http://a.test/', name: 'A', about: { short: 's' }, age: '1 day' }] },
        ai: 'so'
      })(request, response)
    })
    const service: HttpSearchService = {
      url: `${server.origin}/find?q={query}&n={count}`,
      headers: { 'X-Key': 'Bearer {key}' },
      results: 'web.results',
      fields: { url: 'link', title: 'name', snippet: 'about.short', publishedAt: 'age' },
      answer: 'ai'
    }
    const search = new HttpSearch({ ...common, service, key: 's3cret' })
    expect(search.isUsable()).toBe(true)
    expect(await search.search('a&b {key} $& \ud800', { maxResults: 5, signal })).toEqual({
      content: 'so',
      sources: [{ url: 'http://a.test/', title: 'A', snippet: 's', publishedAt: '1 day' }],
      truncated: false
    })
    expect(server.asked).toEqual(['GET /find?q=a%26b%20%7Bkey%7D%20%24%26%20%EF%BF%BD&n=5'])
    expect(headers).toMatchObject({ 'x-key': 'Bearer s3cret', 'user-agent': 'test/1' })
  })

  it('is asked by a body, and may answer with a mere list', async () => {
    let body = ''
    const server = await serveWeb((request, response) => {
      void text(request).then((got) => {
        body = got
        asJson([{ url: 'http://a.test/' }, { url: 'http://b.test/' }])(request, response)
      })
    })
    const service: HttpSearchService = {
      url: server.origin,
      body: { q: '{query}', n: '{count}', deep: ['{key}', 1, null] },
      results: '',
      fields: { url: 'url' }
    }
    const search = new HttpSearch({ ...common, service, key: 'k' })
    const answer = await search.search('"quoted"', { maxResults: 1, signal })
    expect(answer).toEqual({ sources: [{ url: 'http://a.test/' }], truncated: true })
    expect(JSON.parse(body)).toEqual({ q: '"quoted"', n: 1, deep: ['k', 1, null] })
    expect(server.asked).toEqual(['POST /'])
  })

  it('is not usable without its key, or without a URL', () => {
    const usable = (service: Partial<HttpSearchService>, key = '') =>
      new HttpSearch({
        ...common,
        service: { url: 'http://a.test/', results: '', fields: { url: 'url' }, ...service },
        key
      }).isUsable()
    expect(usable({})).toBe(true)
    expect(usable({ url: 'http://a.test/?k={key}' })).toBe(false)
    expect(usable({ url: 'http://a.test/?k={key}' }, 'k')).toBe(true)
    expect(usable({ headers: { a: '{key}' } })).toBe(false)
    expect(usable({ url: 'http://[' })).toBe(false)
  })
})
