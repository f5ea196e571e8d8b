import { describe, expect, it, onTestFinished } from 'vitest'
import webFetch from '../../../plugins/tools/web-fetch.ts'
import { AddressGuard } from '../../../server/backends/web/address-guard.ts'
import { HttpFetch } from '../../../server/backends/web/http-fetch.ts'
import { MarkdownConverter } from '../../../server/backends/web/markdown-converter.ts'
import { WebProviders } from '../../../server/backends/web/providers.ts'
import type { FetchedPage } from '../../../server/backends/web/web.ts'
import type { PresentedResult } from '../../../server/tools/definition.ts'
import { callCard, resultCard } from '../../../server/tools/cards.ts'
import { codeOf, PipelineFixture } from '../../helpers/pipeline-fixture.ts'
import { textIn } from '../../helpers/search-fixture.ts'
import { until } from '../../helpers/until.ts'
import { serveWeb } from '../../helpers/web-server.ts'

/** The tool on real HTTP, or on one page. */
async function open(page?: Omit<FetchedPage, 'url' | 'statusCode'>, convertTimeoutMs = 20_000) {
  const converter = new MarkdownConverter({ timeoutMs: convertTimeoutMs })
  onTestFinished(() => converter.close())
  const web = new WebProviders(converter)
  const guard = new AddressGuard({ allow: ['127.0.0.1'], ports: [] })
  if (page === undefined) {
    web.registerFetch(new HttpFetch({ guard, timeoutMs: 30_000, maxBytes: 5_000_000, userAgent: 'test/1' }))
  } else {
    const fetch = async (url: string) => ({ url, statusCode: 200, ...page })
    web.registerFetch({ id: 'one', isUsable: () => true, fetch })
  }
  const fixture = new PipelineFixture({ traced: false })
  await fixture.tools.mount(webFetch, {}, () => web)
  return { fixture, fetch: (url: unknown = 'http://a.test/') => fixture.call('web_fetch', { url }) }
}

const html = (content: string, truncated = false) => ({ body: { kind: 'html' as const, content }, truncated })

describe('web_fetch', () => {
  it('C69 gives HTML as Markdown below a line with URL and status, and 404 is no error', async () => {
    const server = await serveWeb(({ url }, response) => {
      if (url === '/png') return void response.writeHead(200, { 'content-type': 'image/png' }).end('x')
      response.writeHead(url === '/' ? 200 : 404, { 'content-type': 'text/html' }).end('<h1>Head</h1><p>text</p>')
    })
    const { fetch } = await open()
    const page = await fetch(`${server.origin}/`)
    expect(page).toMatchObject({
      isError: false,
      value: {
        url: `${server.origin}/`,
        statusCode: 200,
        body: { kind: 'html', content: '<h1>Head</h1><p>text</p>' },
        truncated: false
      },
      meta: { url: `${server.origin}/`, statusCode: 200, truncated: false }
    })
    expect(textIn(page)).toBe(`${server.origin}/ (HTTP 200)\n\n# Head\n\ntext`)
    const missing = await fetch(`${server.origin}/nowhere`)
    expect(missing).toMatchObject({ isError: false, value: { statusCode: 404 } })
    expect(codeOf(await fetch(`${server.origin}/png`))).toBe('WEB_UNSUPPORTED_CONTENT_TYPE')
    expect(codeOf(await fetch('ftp://x'))).toBe('WEB_INVALID_URL')
    expect(codeOf(await fetch('http://u:p@h/'))).toBe('WEB_BLOCKED_URL')
    expect(codeOf(await fetch('http://[::1]/'))).toBe('WEB_BLOCKED_URL')
    expect(codeOf(await fetch(7))).toBe('INVALID_ARGS')
    await until(() => server.sockets.size === 0)
  })

  it('gives text as it is', async () => {
    const { fetch } = await open({ body: { kind: 'text', content: '<b>*not* HTML</b>' }, truncated: false })
    expect(textIn(await fetch())).toBe('http://a.test/ (HTTP 200)\n\n<b>*not* HTML</b>')
  })

  it('gives HTML that cannot be converted as it is', async () => {
    const deep = '<div>'.repeat(600)
    const { fetch } = await open(html(deep))
    expect(textIn(await fetch())).toBe(`http://a.test/ (HTTP 200)\n\n${deep}`)
  })

  it('says in text and meta that something is missing', async () => {
    const { fetch } = await open(html('<p>part', true))
    const result = await fetch()
    expect(textIn(result)).toMatch(/part\n\n\(Cut: .*\)$/)
    expect(result.meta).toMatchObject({ truncated: true })
  })

  it('cuts Markdown that is far longer than its page, and says so in meta though the page is whole', async () => {
    const { fetch } = await open(html(`${'<ul><li>'.repeat(60)}${'a<br>'.repeat(5_000)}`))
    const result = await fetch()
    expect(textIn(result)).toHaveLength(200_000)
    expect(textIn(result)).toMatch(/\(Cut: .*\)$/)
    expect(result).toMatchObject({ value: { truncated: false }, meta: { truncated: true } })
  })

  it('converts no more than may be shown, whatever the provider gives', async () => {
    const { fetch } = await open(html(`<p>a</p><!--${'x'.repeat(200_000)}--><p>b</p>`))
    const result = await fetch()
    expect(textIn(result)).toMatch(/^http:\/\/a\.test\/ \(HTTP 200\)\n\na\n\n\(Cut: /)
    expect(result.meta).toMatchObject({ truncated: true })
  })

  it('shows the page that a hook has put in', async () => {
    const { fixture, fetch } = await open(html('<b>old</b>'))
    const page = { url: 'http://b.test/', statusCode: 201, ...html('<b>new</b>') }
    fixture.hook('postExecute', async () => ({ kind: 'accept', value: page }))
    expect(textIn(await fetch())).toBe('http://b.test/ (HTTP 201)\n\n<b>new</b>')
  })

  it('is ABORTED with its caller, amid the page', async () => {
    const server = await serveWeb((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/html' }).write('<p>')
    })
    const { fixture } = await open()
    const { controller, result } = fixture.start('web_fetch', { url: server.origin })
    await until(() => server.asked.length > 0)
    controller.abort()
    expect(codeOf(await result)).toMatch(/^(WEB_)?ABORTED$/)
    await until(() => server.sockets.size === 0)
  })

  it('may run beside other calls', async () => {
    const { fixture } = await open(html(''))
    expect(fixture.pipeline.executionMode(fixture.input('web_fetch', { url: 'x' }))).toEqual({ kind: 'parallel' })
  })
})

describe('cards of web_fetch', () => {
  const card = async (result: Partial<PresentedResult>) => {
    const { fixture } = await open(html(''))
    const tool = fixture.registry.lookup('web_fetch', fixture.tree.global)
    return resultCard(tool, '{"url":"http://a.test/"}', { content: [], isError: false, ...result })
  }

  it('name the URL, then what came of it', async () => {
    const { fixture } = await open(html(''))
    const tool = fixture.registry.lookup('web_fetch', fixture.tree.global)
    expect(callCard(tool, '{"url":"http://a.test/"}')).toEqual({
      card: 'generic',
      kind: 'fetch',
      title: 'Fetch http://a.test/',
      rawInput: 'http://a.test/'
    })
    expect(callCard(tool, '{"url":1}')).toBeUndefined()
    const meta = { url: 'http://a.test/', statusCode: 404, truncated: false }
    expect(await card({ meta })).toEqual({ card: 'web', kind: 'fetch', ...meta })
  })

  it('are none for failures and damaged data', async () => {
    const meta = { url: 'http://a.test/', statusCode: 200, truncated: false }
    expect(await card({ meta, isError: true })).toBeUndefined()
    const damaged = [null, [], 'x', {}, { ...meta, url: 1 }, { ...meta, statusCode: 'x' }, { ...meta, truncated: 0 }]
    for (const broken of damaged) expect(await card({ meta: broken })).toBeUndefined()
    expect(await card({})).toBeUndefined()
  })
})
