import { expect, it } from 'vitest'
import { loadConfig } from '../../../server/config/load.ts'
import { serveApp } from '../../helpers/served-app.ts'
import { serveWeb } from '../../helpers/web-server.ts'

async function open(settings: Record<string, string> = {}) {
  const { call } = await serveApp(settings)
  return async (name: string, args: object) => {
    const response = await call('/invoke', { json: { name, arguments: args } })
    return (await response.json()) as any
  }
}

it('D7 web_fetch is on, and cannot reach this machine', async () => {
  const server = await serveWeb((_request, response) => void response.end('secret'))
  const invoke = await open({ 'web.allowPorts': String(server.port) })
  for (const host of ['127.0.0.1', 'localhost', '[::ffff:127.0.0.1]']) {
    const answer = await invoke('web_fetch', { url: `http://${host}:${server.port}/` })
    expect(answer).toMatchObject({ isError: true, error: { info: { code: 'WEB_BLOCKED_URL' } } })
  }
  expect(server.asked).toEqual([])
})

it('C69 web_fetch reaches what is allowed, and no other port', async () => {
  const page = await serveWeb((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Head</h1>')
  })
  const other = await serveWeb((_request, response) => void response.end('other'))
  const invoke = await open({ 'web.allowAddresses': '127.0.0.1', 'web.allowPorts': String(page.port) })
  const answer = await invoke('web_fetch', { url: `${page.origin}/` })
  expect(answer).toMatchObject({ isError: false, value: { statusCode: 200 } })
  expect(answer.content).toEqual([{ type: 'text', text: `${page.origin}/ (HTTP 200)\n\n# Head` }])
  expect(await invoke('web_fetch', { url: other.origin })).toMatchObject({
    error: { info: { code: 'WEB_BLOCKED_URL' } }
  })
  expect(other.asked).toEqual([])
})

it('C71 web_search asks the services that are configured', async () => {
  const server = await serveWeb(({ url }, response) => {
    const results = [{ url: 'http://a.test/', title: url }]
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ results }))
  })
  const service = JSON.stringify({
    url: `${server.origin}/own?q={query}&key={key}`,
    results: 'results',
    fields: { url: 'url', title: 'title' }
  })
  const outcome = async (settings: Record<string, string>): Promise<string> => {
    const { isError, error, value } = await (await open(settings))('web_search', { queries: ['x'] })
    return isError ? error.info.code : value.sources[0].title
  }
  const searxng = { 'web.searxngUrl': server.origin }
  const own = { 'web.searchService': service, 'web.searchKey': 'k' }
  expect(await outcome(searxng)).toBe('/search?q=x&format=json')
  expect(await outcome(own)).toBe('/own?q=x&key=k')
  expect(await outcome({ ...searxng, ...own, 'web.searchProvider': 'searxng' })).toBe('/search?q=x&format=json')
})

it('does not start with an allowed address that is none', async () => {
  await expect(serveApp({ 'web.allowAddresses': '127.1' })).rejects.toThrow('web.allowAddresses')
})

it.each([
  ['web.allowPorts', '0'],
  ['web.searxngUrl', 'ftp://x'],
  ['web.userAgent', 'a\nb'],
  ['web.searchKey', ''],
  ['web.searchService', '{"url":"http://a.test/"}'],
  ['web.searchService', '{"url":"http://a.test/","results":"","fields":{"url":"u"},"odd":1}']
])('%s is not %j', (setting, value) => {
  expect(() => loadConfig({ flags: new Map([[setting, value]]) })).toThrow(setting)
})
