import { createSocket } from 'node:dgram'
import { Resolver } from 'node:dns/promises'
import { once } from 'node:events'
import type { RequestListener, ServerResponse } from 'node:http'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { describe, expect, it, onTestFinished } from 'vitest'
import { AddressGuard, type ResolveName } from '../../../server/backends/web/address-guard.ts'
import { HttpFetch, type HttpFetchOptions } from '../../../server/backends/web/http-fetch.ts'
import { until } from '../../helpers/until.ts'
import { serveBytes, serveWeb, type WebServer } from '../../helpers/web-server.ts'

const never = new AbortController().signal

function fetcher(options: Partial<HttpFetchOptions> & { allow?: string[]; resolve?: ResolveName } = {}) {
  const { allow = ['127.0.0.1'], resolve, ...rest } = options
  const guard = new AddressGuard({ allow, ports: [] }, resolve)
  return new HttpFetch({ guard, timeoutMs: 30_000, maxBytes: 5_000_000, userAgent: 'test/1', ...rest })
}

const codeOf = (promise: Promise<unknown>): Promise<string | undefined> =>
  promise.then(
    () => undefined,
    (error: { code?: string }) => error.code ?? String(error)
  )

/** A server of paths, each a listener. */
function site(paths: Record<string, RequestListener>, host?: string): Promise<WebServer> {
  return serveWeb((request, response) => {
    const listener = paths[request.url ?? '']
    if (listener === undefined) response.writeHead(404, { 'content-type': 'text/plain' }).end('nothing')
    else listener(request, response)
  }, host)
}

const answer =
  (headers: Record<string, string>, body: string | Uint8Array = 'x', status = 200): RequestListener =>
  (_request, response) =>
    void response.writeHead(status, headers).end(body)

const redirect =
  (location: string, status = 302): RequestListener =>
  (_request, response) =>
    void response.writeHead(status, { location }).end('moved')

/** Writes for as long as somebody reads. */
async function flood(response: ServerResponse, piece: Uint8Array): Promise<void> {
  response.on('error', () => {})
  while (!response.destroyed) {
    if (!response.write(piece)) await Promise.race([once(response, 'drain'), once(response, 'close')]).catch(() => {})
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** All connections that a fetch made are gone. */
const closed = (server: WebServer) => until(() => server.sockets.size === 0)

describe('what a page is', () => {
  it('C69 gives HTML and text with their status, and takes no other status for an error', async () => {
    const server = await site({
      '/page?q=1': answer({ 'content-type': 'text/html; charset=utf-8' }, '<p>hü</p>'),
      '/xhtml': answer({ 'content-type': 'application/xhtml+xml' }),
      '/json': answer({ 'content-type': 'application/vnd.api+json' }, '{}'),
      '/svg': answer({ 'content-type': 'IMAGE/SVG+XML' }, '<svg/>'),
      '/500': answer({ 'content-type': 'text/plain' }, 'oops', 500),
      '/empty': (_request, response) => void response.writeHead(204).end()
    })
    const page = await fetcher().fetch(`${server.origin}/page?q=1#part`, never)
    expect(page).toEqual({
      url: `${server.origin}/page?q=1#part`,
      statusCode: 200,
      body: { kind: 'html', content: '<p>hü</p>' },
      truncated: false
    })
    const kinds = await Promise.all(
      ['/xhtml', '/json', '/svg', '/500', '/nowhere', '/empty'].map(async (path) => {
        const { statusCode, body } = await fetcher().fetch(server.origin + path, never)
        return `${statusCode} ${body.kind} ${body.content}`
      })
    )
    expect(kinds).toEqual([
      '200 html x',
      '200 text {}',
      '200 text <svg/>',
      '500 text oops',
      '404 text nothing',
      '204 text '
    ])
    await closed(server)
  })

  it('C69 refuses what is no text', async () => {
    const server = await site({
      '/png': answer({ 'content-type': 'image/png' }),
      '/octets': answer({ 'content-type': 'application/octet-stream' }),
      '/untyped': (_request, response) => void response.writeHead(200).end('x'),
      '/odd': answer({ 'content-type': 'nonsense' }),
      '/charset': answer({ 'content-type': 'text/plain; charset=klingon' }),
      '/utf7': answer({ 'content-type': 'text/html; charset="utf-7"' })
    })
    for (const path of ['/png', '/octets', '/untyped', '/odd', '/charset', '/utf7']) {
      expect(await codeOf(fetcher().fetch(server.origin + path, never)), path).toBe('WEB_UNSUPPORTED_CONTENT_TYPE')
    }
    await closed(server)
  })

  it('asks as an anonymous client', async () => {
    let asked: Record<string, unknown> = {}
    const server = await serveWeb(({ headers }, response) => {
      asked = headers
      response.writeHead(200, { 'content-type': 'text/plain', 'set-cookie': 'a=b' }).end('x')
    })
    const fetch = fetcher()
    await fetch.fetch(`${server.origin}/`, never)
    await fetch.fetch(`${server.origin}/`, never)
    expect(asked['user-agent']).toBe('test/1')
    expect(Object.keys(asked).sort()).toEqual(['accept', 'accept-encoding', 'connection', 'host', 'user-agent'])
  })

  it('reads a charset from the mark, the header, the page, in this order', async () => {
    const html = (charset: string, body: Uint8Array) => answer({ 'content-type': `text/html${charset}` }, body)
    const meta = Buffer.from('<meta charset="windows-1252"><p>h\xfc', 'latin1')
    const server = await site({
      '/header': html('; charset=iso-8859-1', Buffer.from('h\xfc', 'latin1')),
      '/meta': html('', meta),
      '/lie': html('; charset=utf-8', meta),
      '/unknown-meta': html('', Buffer.from('<meta charset="klingon">hü')),
      '/utf16-meta': html('', Buffer.from('<meta charset="utf-16le">hü')),
      '/mark': html('; charset=iso-8859-1', Buffer.from('\ufeffhü')),
      '/mark16': answer({ 'content-type': 'text/plain' }, Buffer.from('\ufeffhü', 'utf16le')),
      '/shift-jis': html('; charset=shift_jis', Buffer.from([0x93, 0xfa]))
    })
    const text = async (path: string) => (await fetcher().fetch(server.origin + path, never)).body.content
    expect(await text('/header')).toBe('hü')
    expect(await text('/meta')).toContain('<p>hü')
    expect(await text('/lie')).toContain('<p>h\ufffd')
    expect(await text('/unknown-meta')).toContain('hü')
    expect(await text('/utf16-meta')).toContain('hü')
    expect(await text('/mark')).toBe('hü')
    expect(await text('/mark16')).toBe('hü')
    expect(await text('/shift-jis')).toBe('日')
  })
})

describe('which URLs', () => {
  it('C69 refuses other schemes, credentials, blocked addresses and long URLs before asking anybody', async () => {
    const server = await site({})
    const { port } = server
    const cases: [string, string][] = [
      ['ftp://x', 'WEB_INVALID_URL'],
      ['nonsense', 'WEB_INVALID_URL'],
      ['', 'WEB_INVALID_URL'],
      [`http://127.0.0.2:${port}/${'x'.repeat(2_048)}`, 'WEB_INVALID_URL'],
      [`http://127.0.0.2:${port}/${'ü'.repeat(1_000)}`, 'WEB_INVALID_URL'],
      ['http://u:p@h/', 'WEB_BLOCKED_URL'],
      ...[
        'localhost',
        '127.0.0.1',
        '127.1',
        '0x7f.1',
        '2130706433',
        '[::ffff:127.0.0.1]',
        '[::1]',
        '0.0.0.0',
        '[::]'
      ].map((host): [string, string] => [`http://${host}:${port}/`, 'WEB_BLOCKED_URL'])
    ]
    // Only 127.0.0.2 is public here (S17).
    const fetch = fetcher({ allow: ['127.0.0.2'] })
    for (const [url, code] of cases) expect(await codeOf(fetch.fetch(url, never)), url).toBe(code)
    expect(server.asked).toEqual([])
    expect(server.sockets.size).toBe(0)
  })

  it('follows redirects of five kinds within an origin, five at most', async () => {
    const chain = Object.fromEntries(
      [301, 302, 303, 307, 308].map((status, at) => [`/${at}`, redirect(at % 2 ? `/${at + 1}` : `${at + 1}`, status)])
    )
    const server = await site({
      ...chain,
      '/5': answer({ 'content-type': 'text/plain' }, 'there'),
      '/first': redirect('/0'),
      '/loop': redirect('/loop'),
      '/300': answer({ 'content-type': 'text/plain', location: '/5' }, 'choose', 300)
    })
    const page = await fetcher().fetch(`${server.origin}/0`, never)
    expect(page).toMatchObject({ url: `${server.origin}/5`, statusCode: 200, body: { content: 'there' } })
    expect(await codeOf(fetcher().fetch(`${server.origin}/first`, never))).toBe('WEB_REDIRECT_BLOCKED')
    server.asked.length = 0
    expect(await codeOf(fetcher().fetch(`${server.origin}/loop`, never))).toBe('WEB_REDIRECT_BLOCKED')
    expect(server.asked).toHaveLength(6)
    expect(await fetcher().fetch(`${server.origin}/300`, never)).toMatchObject({ statusCode: 300 })
    await closed(server)
  })

  it('S17 follows no redirect to another origin, and checks each hop again', async () => {
    const canary = await site({})
    const server = await site(
      {
        '/out': redirect(`${canary.origin}/secret`),
        '/scheme': (request, response) => redirect(`https://${request.headers.host}/`)(request, response),
        '/file': redirect('file:///etc/passwd'),
        '/userinfo': (request, response) => redirect(`http://u:p@${request.headers.host}/`)(request, response),
        '/long': redirect(`/${'x'.repeat(2_048)}`),
        '/bad': redirect('http://['),
        '/none': (_request, response) => void response.writeHead(302).end(),
        '/slashes': redirect(`//127.0.0.1:${canary.port}/`),
        '/backslashes': redirect(String.raw`/\127.0.0.1:${canary.port}/`)
      },
      '127.0.0.2'
    )
    const codes: [string, string][] = [
      ['/out', 'WEB_REDIRECT_BLOCKED'],
      ['/scheme', 'WEB_REDIRECT_BLOCKED'],
      ['/file', 'WEB_REDIRECT_BLOCKED'],
      ['/slashes', 'WEB_REDIRECT_BLOCKED'],
      ['/backslashes', 'WEB_REDIRECT_BLOCKED'],
      ['/userinfo', 'WEB_BLOCKED_URL'],
      ['/long', 'WEB_INVALID_URL'],
      ['/bad', 'WEB_PROVIDER_ERROR'],
      ['/none', 'WEB_PROVIDER_ERROR']
    ]
    for (const allow of [['127.0.0.2'], ['127.0.0.1', '127.0.0.2']]) {
      const fetch = fetcher({ allow })
      for (const [path, code] of codes) expect(await codeOf(fetch.fetch(server.origin + path, never)), path).toBe(code)
    }
    expect(canary.asked).toEqual([])
    await closed(server)
  })

  it('tells where a redirect to another origin leads', async () => {
    const server = await site({ '/out': redirect('https://other.test/page') })
    await expect(fetcher().fetch(`${server.origin}/out`, never)).rejects.toThrow('https://other.test/page')
  })
})

describe('S17 names', () => {
  it('connects to the addresses that it checked, however the name answers later', async () => {
    const canary = await site({})
    const server = await site({ '/': answer({ 'content-type': 'text/plain' }, 'public') }, '127.0.0.2')
    let lookups = 0
    // Public first, this machine from then on.
    const resolve: ResolveName = async () => {
      lookups += 1
      return [{ address: lookups === 1 ? '127.0.0.2' : '127.0.0.1', family: 4 }]
    }
    const fetch = fetcher({ allow: ['127.0.0.2'], resolve })
    const page = await fetch.fetch(`http://name.test:${server.port}/`, never)
    expect(page.body.content).toBe('public')
    expect(lookups).toBe(1)
    expect(await codeOf(fetch.fetch(`http://name.test:${canary.port}/`, never))).toBe('WEB_BLOCKED_URL')
    expect(canary.asked).toEqual([])
  })

  it('is not fooled by a real name server that answers public first and then this machine', async () => {
    const canary = await site({})
    const names = await nameServer(['127.0.0.2', '127.0.0.1'])
    const server = await site({ '/': answer({ 'content-type': 'text/plain' }, 'public') }, '127.0.0.2')
    const fetch = fetcher({ allow: ['127.0.0.2'], resolve: names.resolve })
    expect((await fetch.fetch(`http://name.test:${server.port}/`, never)).body.content).toBe('public')
    expect(await codeOf(fetch.fetch(`http://name.test:${canary.port}/`, never))).toBe('WEB_BLOCKED_URL')
    expect(names.queries()).toBe(2)
    expect(canary.asked).toEqual([])
    expect(canary.sockets.size).toBe(0)
  })

  it('is not fooled by a name that changes between a redirect and its target', async () => {
    const server = await site({ '/': redirect('/again') }, '127.0.0.2')
    const addresses = ['127.0.0.2', '127.0.0.1']
    const resolve: ResolveName = async () => [{ address: addresses.shift() as string, family: 4 }]
    const fetch = fetcher({ allow: ['127.0.0.2'], resolve })
    expect(await codeOf(fetch.fetch(`http://name.test:${server.port}/`, never))).toBe('WEB_BLOCKED_URL')
    expect(server.asked).toEqual(['GET /'])
  })

  it('refuses a name with one blocked address among public ones', async () => {
    const canary = await site({})
    const addresses = ['127.0.0.2', '127.0.0.1'].map((address) => ({ address, family: 4 }))
    for (const resolved of [addresses, addresses.toReversed()]) {
      const fetch = fetcher({ allow: ['127.0.0.2'], resolve: async () => resolved })
      expect(await codeOf(fetch.fetch(`http://name.test:${canary.port}/`, never))).toBe('WEB_BLOCKED_URL')
    }
    expect(canary.asked).toEqual([])
  })

  it('reports a name that is not known', async () => {
    const resolve: ResolveName = async () => Promise.reject(Object.assign(new Error('no'), { code: 'ENOTFOUND' }))
    expect(await codeOf(fetcher({ resolve }).fetch('http://name.test/', never))).toBe('WEB_PROVIDER_ERROR')
  })
})

/** A name server for A records that gives these answers in turn, the last one for ever. */
async function nameServer(answers: string[]) {
  let queries = 0
  const socket = createSocket('udp4')
  socket.on('message', (query, peer) => {
    const address = answers[Math.min(queries, answers.length - 1)] as string
    queries += 1
    const question = query.subarray(12, query.indexOf(0, 12) + 5)
    const head = Buffer.from([query[0]!, query[1]!, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0])
    const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...address.split('.').map(Number)])
    socket.send(Buffer.concat([head, question, record]), peer.port, peer.address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  onTestFinished(() => void socket.close())
  const resolver = new Resolver()
  resolver.setServers([`127.0.0.1:${socket.address().port}`])
  const resolve: ResolveName = async (name) =>
    (await resolver.resolve4(name)).map((address) => ({ address, family: 4 }))
  return { resolve, queries: () => queries }
}

describe('how much of a page', () => {
  const text = { 'content-type': 'text/plain' }

  it('refuses a declared length beyond the limit without reading on', async () => {
    const server = await serveBytes((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5000001\r\n\r\nstart')
    })
    expect(await codeOf(fetcher().fetch(`${server.origin}/`, never))).toBe('WEB_FETCH_TOO_LARGE')
    await closed(server)
  })

  it('cuts an endless page at the characters, and says so', async () => {
    const server = await site({
      '/': (_request, response) => void flood(response.writeHead(200, text), Buffer.alloc(65_536, 97))
    })
    const page = await fetcher().fetch(`${server.origin}/`, never)
    expect(page.body.content).toBe('a'.repeat(100_000))
    expect(page.truncated).toBe(true)
    await closed(server)
  })

  it('cuts an endless page at the bytes', async () => {
    const server = await site({
      '/': (_request, response) => void flood(response.writeHead(200, text), Buffer.alloc(1_000, 'ü€'))
    })
    const page = await fetcher({ maxBytes: 10_001 }).fetch(`${server.origin}/`, never)
    expect(Buffer.byteLength(page.body.content)).toBeLessThanOrEqual(10_001)
    expect(Buffer.byteLength(page.body.content)).toBeGreaterThan(9_900)
    expect(page.truncated).toBe(true)
    await closed(server)
  })

  it('cuts no character in two, and nothing off what just fits', async () => {
    const server = await site({
      '/whole': answer(text, 'a'.repeat(100_000)),
      '/more': answer(text, 'a'.repeat(100_001)),
      '/pairs': answer(text, `a${'😀'.repeat(60_000)}`),
      '/bytes': answer(text, 'a'.repeat(20))
    })
    const page = async (path: string, maxBytes?: number) =>
      fetcher(maxBytes === undefined ? {} : { maxBytes }).fetch(server.origin + path, never)
    expect((await page('/whole')).truncated).toBe(false)
    expect((await page('/more')).truncated).toBe(true)
    const { body } = await page('/pairs')
    expect(body.content).toBe(`a${'😀'.repeat(49_999)}`)
    expect((await page('/bytes', 20)).truncated).toBe(false)
    expect(await page('/bytes', 19)).toMatchObject({ body: { content: 'a'.repeat(19) }, truncated: true })
  })

  it('reads gzip and brotli', async () => {
    const server = await site({
      '/gzip': answer({ ...text, 'content-encoding': 'gzip' }, gzipSync('packed')),
      '/br': answer({ ...text, 'content-encoding': 'BR' }, brotliCompressSync('packed')),
      '/identity': answer({ ...text, 'content-encoding': 'identity' }, 'plain'),
      '/lie': answer({ ...text, 'content-encoding': 'gzip' }, 'not packed'),
      '/torn': answer({ ...text, 'content-encoding': 'gzip' }, gzipSync('packed').subarray(0, 20))
    })
    const got = async (path: string) => (await fetcher().fetch(server.origin + path, never)).body.content
    expect([await got('/gzip'), await got('/br'), await got('/identity')]).toEqual(['packed', 'packed', 'plain'])
    expect(await codeOf(got('/lie'))).toBe('WEB_PROVIDER_ERROR')
    expect(await codeOf(got('/torn'))).toBe('WEB_PROVIDER_ERROR')
    await closed(server)
  })

  it('S16 refuses what unpacks to more than the limit, chains and other codings', async () => {
    const zeros = Buffer.alloc(10_000_000)
    const once = gzipSync(zeros)
    const coded = (coding: string, body: Uint8Array) => answer({ ...text, 'content-encoding': coding }, body)
    const server = await site({
      '/gzip': coded('gzip', once),
      '/br': coded('br', brotliCompressSync(zeros)),
      '/chain': coded('gzip, gzip', gzipSync(once)),
      '/zstd': coded('zstd', Buffer.from('28b52ffd', 'hex'))
    })
    const codes = async (maxBytes: number) =>
      Promise.all(
        ['/gzip', '/br', '/chain', '/zstd'].map((path) =>
          codeOf(fetcher({ maxBytes }).fetch(server.origin + path, never))
        )
      )
    // NULs are characters too: a page of them is cut before it can be seen to be a bomb.
    expect(await codes(90_000)).toEqual([
      'WEB_FETCH_TOO_LARGE',
      'WEB_FETCH_TOO_LARGE',
      'WEB_UNSUPPORTED_CONTENT_TYPE',
      'WEB_UNSUPPORTED_CONTENT_TYPE'
    ])
    await closed(server)
  })
})

describe('servers that misbehave', () => {
  const head = 'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n'

  it.each([
    ['a body shorter than declared', `${head}Content-Length: 100\r\n\r\nshort`],
    ['two lengths', `${head}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab`],
    ['a negative length', `${head}Content-Length: -1\r\n\r\nab`],
    ['a chunk that ends early', `${head}Transfer-Encoding: chunked\r\n\r\nff\r\nshort`],
    ['a chunk size that is none', `${head}Transfer-Encoding: chunked\r\n\r\nzz\r\n`],
    ['no HTTP', 'SSH-2.0-OpenSSH_9.2\r\n'],
    ['nothing', ''],
    ['more headers than there may be', `${head}${'X-A: b\r\n'.repeat(10_000)}\r\n`],
    ['one header without end', `${head}X-A: ${'b'.repeat(100_000)}`]
  ])('reports %s', async (_name, bytes) => {
    const server = await serveBytes((socket) => socket.end(bytes))
    expect(await codeOf(fetcher().fetch(`${server.origin}/`, never))).toBe('WEB_PROVIDER_ERROR')
    await closed(server)
  })

  it('takes a body up to its declared length and no further', async () => {
    const server = await serveBytes((socket) => socket.end(`${head}Content-Length: 2\r\n\r\nabHTTP/1.1 200 OK\r\n\r\n`))
    const page = await fetcher().fetch(`${server.origin}/`, never)
    expect(page.body.content).toBe('ab')
    await closed(server)
  })

  it.each([
    ['answers nothing', ''],
    ['drips its headers', head],
    ['drips its body', `${head}Content-Length: 1000\r\n\r\n`],
    ['sends interim answers for ever', 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n']
  ])('gives up on one that %s', async (_name, start) => {
    const server = await serveBytes((socket) => {
      socket.write(start)
      const drip = start.startsWith('HTTP/1.1 103') ? start : 'x'
      const timer = setInterval(() => socket.write(start === '' ? '' : drip), 20)
      socket.on('close', () => clearInterval(timer))
    })
    expect(await codeOf(fetcher({ timeoutMs: 300 }).fetch(`${server.origin}/`, never))).toBe('WEB_FETCH_TIMEOUT')
    await closed(server)
  })

  it('reports a port that nobody listens on', async () => {
    const server = await site({})
    const silent = await serveBytes(() => {})
    expect(await codeOf(fetcher().fetch(`http://127.0.0.1:1/`, never))).toBe('WEB_PROVIDER_ERROR')
    expect(server.sockets.size + silent.sockets.size).toBe(0)
  })

  it('gives up on a name that is never looked up', async () => {
    const fetch = fetcher({ timeoutMs: 50, resolve: () => new Promise(() => {}) })
    expect(await codeOf(fetch.fetch('http://name.test/', never))).toBe('WEB_FETCH_TIMEOUT')
  })
})

describe('abort', () => {
  it('ends a fetch before, while connecting, before the headers and amid the body, and leaves nothing open', async () => {
    const server = await site({
      '/silent': () => {},
      '/body': (_request, response) => void response.writeHead(200, { 'content-type': 'text/plain' }).write('start')
    })
    expect(await codeOf(fetcher().fetch(`${server.origin}/body`, AbortSignal.abort()))).toBe('WEB_ABORTED')
    expect(server.asked).toEqual([])
    for (const path of ['/silent', '/body']) {
      const controller = new AbortController()
      const fetching = codeOf(fetcher().fetch(server.origin + path, controller.signal))
      await until(() => server.asked.includes(`GET ${path}`))
      controller.abort()
      expect(await fetching).toBe('WEB_ABORTED')
      await closed(server)
    }
    const controller = new AbortController()
    const resolve: ResolveName = () => {
      controller.abort()
      return new Promise(() => {})
    }
    expect(await codeOf(fetcher({ resolve }).fetch('http://name.test/', controller.signal))).toBe('WEB_ABORTED')
  })

  it('connects to nobody once it is over, though the name is known only then', async () => {
    const server = await site({}, '127.0.0.2')
    const controller = new AbortController()
    let known!: (addresses: { address: string; family: number }[]) => void
    const resolve: ResolveName = () => {
      controller.abort()
      return new Promise((resolveName) => (known = resolveName))
    }
    const fetch = fetcher({ allow: ['127.0.0.2'], resolve })
    expect(await codeOf(fetch.fetch(`http://name.test:${server.port}/`, controller.signal))).toBe('WEB_ABORTED')
    known([{ address: '127.0.0.2', family: 4 }])
    const later = await fetcher({ allow: ['127.0.0.2'] }).fetch(`${server.origin}/later`, never)
    expect(later.statusCode).toBe(404)
    expect(server.asked).toEqual(['GET /later'])
    await closed(server)
  })

  it('leaves no connection behind, whatever becomes of many fetches at a time', async () => {
    const server = await site({
      '/ok': answer({ 'content-type': 'text/plain' }),
      '/png': (_request, response) =>
        void flood(response.writeHead(200, { 'content-type': 'image/png' }), Buffer.alloc(9_999)),
      '/moved': (_request, response) => void flood(response.writeHead(302, { location: '/ok' }), Buffer.alloc(9_999)),
      '/out': (_request, response) =>
        void flood(response.writeHead(302, { location: 'http://x.test/' }), Buffer.alloc(9_999))
    })
    const paths = ['/ok', '/png', '/moved', '/out']
    await Promise.all(
      Array.from({ length: 40 }, (_, at) =>
        codeOf(fetcher().fetch(server.origin + paths[at % 4], new AbortController().signal))
      )
    )
    expect(server.asked.length).toBeGreaterThanOrEqual(40)
    await closed(server)
  })
})
