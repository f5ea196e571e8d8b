import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { HomeApp } from '../../helpers/home-app.ts'
import { McpHttpServer } from '../../helpers/mcp-http-server.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'
import { until } from '../../helpers/until.ts'

const http = (url: string, more: object = {}): object => ({
  transport: 'streamable-http',
  url,
  toolCallTimeoutMs: 20_000,
  ...more
})

async function open(servers: Record<string, object>, settings: Record<string, string> = {}): Promise<HomeApp> {
  return HomeApp.start({
    'mcp.servers': JSON.stringify(servers),
    'mcp.listChangedIntervalMs': '1',
    'mcp.maxMessageBytes': '6000000',
    'mcp.startupWaitMs': '30000',
    ...settings
  })
}

async function call(app: HomeApp, name: string, args: object = {}, more: object = {}): Promise<any> {
  return (await app.ask('POST', '/invoke', { name, arguments: args, ...more })).body
}

const textOf = (result: any): string => result.content.map(({ text }: { text: string }) => text).join('|')

describe('a server over streamable HTTP (backends.md §10)', () => {
  it('keeps a session for each scope, and makes a new one where the old is forgotten', async () => {
    const upstream = await McpHttpServer.start()
    const stateless = await McpHttpServer.start({ isStateless: true })
    const app = await open({
      srv: http(`${upstream.url}?key=canary-of-url`, { headers: { authorization: 'Bearer canary-of-header' } }),
      flat: http(stateless.url)
    })
    for (const scope of ['a', 'b']) await app.ask('PUT', `/scopes/${scope}`, {})
    const count = async (scope: string): Promise<string> => textOf(await call(app, 'mcp__srv__count', {}, { scope }))

    // F63: what a stateful server counts for one scope is not seen by another.
    expect([await count('a'), await count('a'), await count('b'), await count('global'), await count('a')]).toEqual([
      '1',
      '2',
      '1',
      '1',
      '3'
    ])
    expect(upstream.transports.size).toBe(3)
    expect(textOf(await call(app, 'mcp__flat__greet', { name: 'you' }, { scope: 'a' }))).toBe('hello you')
    expect((await app.ask('GET', '/mcp-servers/flat')).body.connections).toBe(1)

    // The headers go out, and are shown nowhere.
    expect(upstream.requests.every(({ headers }) => headers.authorization === 'Bearer canary-of-header')).toBe(true)
    const shown = await app.ask('GET', '/mcp-servers/srv')
    expect(shown.body).toMatchObject({ url: upstream.url, headers: ['authorization'], connections: 3, state: 'ready' })
    expect(shown.text).not.toMatch(/canary/)

    // F15: calls that come together open one session.
    await app.ask('PUT', '/scopes/c', {})
    const before = upstream.opened
    const together = await Promise.all(Array.from({ length: 20 }, () => count('c')))
    expect(together.map(Number).sort((x, y) => x - y)).toEqual(Array.from({ length: 20 }, (_, at) => at + 1))
    expect(upstream.opened).toBe(before + 1)

    // A scope that is gone takes its session along.
    await app.ask('DELETE', '/scopes/c')
    await until(() => upstream.transports.size === 3)

    // F61: reading the list again opens no session.
    const { server } = app.app.mcpBridge.get('srv')!
    for (let at = 0; at < 200; at += 1) await server.resync()
    expect([upstream.opened, upstream.transports.size]).toEqual([before + 1, 3])

    // F53: one new session each, one retry, no loop; also for twenty that are turned away together.
    upstream.forget()
    const opened = upstream.opened
    expect(await count('a')).toBe('1')
    const again = await Promise.all(Array.from({ length: 20 }, () => count('b')))
    expect(new Set(again).size).toBe(20)
    expect(await count('global')).toBe('1')
    expect(upstream.opened - opened).toBe(3)

    // Its notice has the list read again.
    upstream.extra = [{ name: 'later', inputSchema: { type: 'object' } }]
    await until(async () => {
      await upstream.announceChange()
      return (await app.names('global')).includes('mcp__srv__later')
    })

    // F51: an abort is told to the server, and the session goes on.
    const long = app.ask('POST', '/invoke', {
      name: 'mcp__srv__sleep',
      arguments: { ms: 600_000 },
      scope: 'b',
      callId: 'long'
    })
    await until(async () => textOf(await call(app, 'mcp__srv__sleeping', {}, { scope: 'b' })) === '1')
    await app.ask('POST', '/calls/b:default/long/cancel')
    expect((await long).body.error.info.code).toBe('ABORTED')
    await until(async () => textOf(await call(app, 'mcp__srv__cancelled', {}, { scope: 'b' })) === '1')

    // F59 and its bound.
    expect((await call(app, 'mcp__srv__big', { bytes: 5_000_000 })).value.content[0].text).toHaveLength(5_000_000)
    const huge = await call(app, 'mcp__srv__big', { bytes: 7_000_000 })
    expect(huge.error.info.code).toBe('MCP_TOO_LARGE')

    // Sessions are ended with the bridge.
    await app.app.close()
    expect(upstream.transports.size).toBe(0)
  })

  it('what one says beyond its pace is read later, and a list of answers is none (S8)', async () => {
    const upstream = await listening(async (request, response) => {
      if (request.method !== 'POST') return void response.writeHead(405).end()
      const { id, method, params } = await bodyOf(request)
      if (id === undefined) return void response.writeHead(202).end()
      const answer = (result: object): string => JSON.stringify({ jsonrpc: '2.0', id, result })
      response.setHeader('content-type', 'application/json')
      if (method === 'initialize') {
        const serverInfo = { name: 'flood', version: '1' }
        return void response.end(answer({ ...params, capabilities: { tools: {} }, serverInfo }))
      }
      if (method === 'tools/list') {
        return void response.end(
          answer({ tools: ['floods', 'lists'].map((name) => ({ name, inputSchema: { type: 'object' } })) })
        )
      }
      const result = answer({ content: [{ type: 'text', text: 'ok' }] })
      if (params.name === 'lists') return void response.end(`[${result}]`)
      const notice = 'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n'
      response.setHeader('content-type', 'text/event-stream')
      response.end(`${notice.repeat(500)}data: ${result}\n\n`)
    })
    const app = await open({ srv: http(upstream.url, { toolCallTimeoutMs: 2_000 }) }, { 'mcp.messagesPerSecond': '10' })
    expect((await call(app, 'mcp__srv__lists')).error.info.code).toBe('MCP_ERROR')
    expect((await call(app, 'mcp__srv__floods')).error.info.code).toBe('MCP_TIMEOUT')
    expect((await app.ask('GET', '/mcp-servers/srv')).body.state).toBe('ready')
  })

  it('a session is ended also where the connection comes to nothing', async () => {
    const ended: unknown[] = []
    const odd = await listening(async (request, response) => {
      const session = request.headers['mcp-session-id']
      if (request.method === 'DELETE') return void (ended.push(session), response.end())
      const { id, method, params } = await bodyOf(request)
      if (method !== 'initialize') return response.writeHead(500).end()
      const version = request.url === '/old' ? '1999-01-01' : params.protocolVersion
      const serverInfo = { name: 'odd', version: '1' }
      const result = { protocolVersion: version, capabilities: {}, serverInfo }
      response.setHeader('mcp-session-id', `of ${request.url}`).setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
    })
    const reconnect = { enabled: false }
    const app = await open({
      old: http(`${odd.url}/old`, { reconnect }),
      deaf: http(`${odd.url}/deaf`, { reconnect })
    })
    expect((await app.ask('GET', '/mcp-servers/old')).body.lastError).toMatch(/1999-01-01/)
    await until(() => ended.length === 2)
    expect(new Set(ended)).toEqual(new Set(['of /deaf', 'of /old']))
  })

  it('the notices of a server that was away come again, and its tools are read then', async () => {
    let [asked, isAway, tool] = [0, false, 'first']
    const notices: ServerResponse[] = []
    const restarted = await listening(async (request, response) => {
      if (request.method === 'GET') {
        asked += 1
        // The SDK alone gives up after two.
        isAway &&= asked < 4
        if (isAway) return response.writeHead(502).end()
        notices.push(response)
        return response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      }
      const { id, method, params } = await bodyOf(request)
      if (id === undefined) return response.writeHead(202).end()
      const serverInfo = { name: 'restarted', version: '1' }
      const result =
        method === 'initialize'
          ? { protocolVersion: params.protocolVersion, capabilities: { tools: { listChanged: true } }, serverInfo }
          : { tools: [{ name: tool, inputSchema: { type: 'object' } }] }
      response.setHeader('content-type', 'application/json').end(JSON.stringify({ jsonrpc: '2.0', id, result }))
    })
    const app = await open({ away: http(restarted.url) })
    const tools = async (): Promise<string[]> =>
      (await app.ask('GET', '/mcp-servers/away')).body.tools.map((given: { tool: string }) => given.tool)
    await until(() => notices.length === 1)
    expect(await tools()).toEqual(['first'])
    tool = 'second'
    isAway = true
    notices[0]!.destroy()
    await until(async () => (await tools())[0] === 'second', 30_000)
    expect(notices).toHaveLength(2)
  }, 60_000)

  it('S8 answers that break off, lie or lead elsewhere are typed errors', async () => {
    const canary = await listening((_request, response) => response.end('reached'))
    let reached = 0
    canary.server.on('request', () => (reached += 1))
    const answers: Record<
      string,
      (id: number) => { head?: Record<string, string>; status?: number; body: string; cut?: boolean }
    > = {
      cut: () => ({ head: { 'content-type': 'text/event-stream' }, body: 'data: {"jsonrpc":"2.0","id"', cut: true }),
      ended: () => ({ head: { 'content-type': 'text/event-stream' }, body: ': nothing\n\n' }),
      other: (id) => ({ body: JSON.stringify({ jsonrpc: '2.0', id: id + 1_000, result: { content: [] } }) }),
      html: () => ({ head: { 'content-type': 'text/html' }, body: '<html>' }),
      away: () => ({ status: 307, head: { location: `${canary.url}/elsewhere` }, body: '' }),
      // What the SDK says itself when an answer is late, and some servers of a session.
      spoof: (id) => ({
        body: JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32_001, message: 'no session' } })
      }),
      busy: () => ({ status: 503, body: 'too many sessions' }),
      auth: () => ({
        status: 401,
        head: { 'www-authenticate': `Bearer resource_metadata="${canary.url}/.well-known/x"` },
        body: JSON.stringify({ authorization_endpoint: 'a:$(touch /tmp/pwn)' })
      }),
      deep: (id) => ({
        body: `{"jsonrpc":"2.0","id":${id},"result":{"content":${'['.repeat(100_000)}${']'.repeat(100_000)}}}`
      }),
      large: (id) => ({
        head: { 'content-type': 'text/event-stream' },
        body: `data: {"jsonrpc":"2.0","id":${id},"x":"${'x'.repeat(7_000_000)}"}\n\n`
      }),
      // F37: the number would be another one.
      rounded: (id) => ({
        body: `{"jsonrpc":"2.0","id":${id},"result":{"content":[],"structuredContent":{"a":9007199254740993}}}`
      }),
      streamed: (id) => ({
        head: { 'content-type': 'text/event-stream' },
        body: `data: {"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"x","a":9007199254740993}]}}\n\n`
      }),
      exact: (id) => ({
        body: `{"jsonrpc":"2.0","id":${id},"result":{"_meta":{"t":9007199254740993},"content":[],"structuredContent":{"a":6.02e23}}}`
      })
    }
    const evil = await listening(async (request, response) => {
      if (request.method !== 'POST') return response.writeHead(405).end()
      const { id, method, params } = await bodyOf(request)
      const send = (result: unknown) => {
        response
          .writeHead(200, { 'content-type': 'application/json' })
          .end(JSON.stringify({ jsonrpc: '2.0', id, result }))
      }
      if (id === undefined) return response.writeHead(202).end()
      const serverInfo = { name: 'evil', version: '1' }
      if (method === 'initialize')
        return send({ protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo })
      if (method === 'tools/list')
        return send({ tools: Object.keys(answers).map((name) => ({ name, inputSchema: { type: 'object' } })) })
      const { status = 200, head = { 'content-type': 'application/json' }, body, cut } = answers[params.name]!(id)
      response.writeHead(status, head)
      if (cut !== true) return response.end(body)
      response.write(body, () => response.destroy())
    })
    const app = await open({
      evil: http(evil.url, { toolCallTimeoutMs: 10_000 }),
      brief: http(evil.url, { toolCallTimeoutMs: 300 }),
      gone: http('http://127.0.0.1:1/mcp')
    })
    const codes: Record<string, string> = {
      cut: 'MCP_CONNECTION_LOST',
      ended: 'MCP_CONNECTION_LOST',
      html: 'MCP_ERROR',
      away: 'MCP_ERROR',
      spoof: 'MCP_ERROR',
      busy: 'MCP_ERROR',
      auth: 'MCP_ERROR',
      deep: 'MCP_TOO_LARGE',
      large: 'MCP_TOO_LARGE',
      rounded: 'INVALID_TOOL_OUTPUT',
      streamed: 'INVALID_TOOL_OUTPUT'
    }
    for (const [name, code] of Object.entries(codes)) {
      expect([name, (await call(app, `mcp__evil__${name}`)).error?.info?.code]).toEqual([name, code])
    }
    expect((await call(app, 'mcp__evil__exact')).value.structuredContent).toEqual({ a: 6.02e23 })
    expect((await call(app, 'mcp__brief__other')).error.info.code).toBe('MCP_TIMEOUT')
    expect(reached).toBe(0)
    const { body } = await app.ask('GET', '/mcp-servers')
    expect(body.servers.map(({ name, state }: any) => [name, state === 'ready'])).toEqual([
      ['brief', true],
      ['evil', true],
      ['gone', false]
    ])
    // It is not there any more: nothing was run, and that is said.
    evil.server.close()
    evil.server.closeAllConnections()
    expect((await call(app, 'mcp__evil__html')).error).toMatchObject({
      info: { code: 'MCP_UNAVAILABLE' },
      effect: 'none'
    })
  })
})

describe('real servers', () => {
  it('server-everything and server-filesystem over stdio, everything over streamable HTTP', async () => {
    const at = (name: string): string =>
      fileURLToPath(new URL(`../../../node_modules/@modelcontextprotocol/${name}/dist/index.js`, import.meta.url))
    const directory = temporaryDirectory()
    const free = await listening((_request, response) => response.end())
    const { port } = free.server.address() as AddressInfo
    free.server.close()
    const child = spawn(process.execPath, [at('server-everything'), 'streamableHttp'], {
      env: { ...process.env, PORT: String(port) },
      stdio: ['ignore', 'ignore', 'pipe']
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    await new Promise<void>((resolve) =>
      child.stderr.on('data', (chunk: Buffer) => /listening|Listening/.test(String(chunk)) && resolve())
    )
    const app = await open(
      {
        every: { transport: 'stdio', command: process.execPath, args: [at('server-everything')] },
        files: { transport: 'stdio', command: process.execPath, args: [at('server-filesystem'), directory] },
        web: http(`http://127.0.0.1:${port}/mcp`)
      },
      { 'mcp.startupWaitMs': '50000' }
    )
    const { body } = await app.ask('GET', '/mcp-servers')
    expect(body.servers.map(({ name, state, lastError }: any) => [name, state, lastError])).toEqual([
      ['every', 'ready', undefined],
      ['files', 'ready', undefined],
      ['web', 'ready', undefined]
    ])
    for (const server of ['every', 'web']) {
      expect(textOf(await call(app, `mcp__${server}__echo`, { message: 'hi' }))).toBe('Echo: hi')
      expect(textOf(await call(app, `mcp__${server}__get-sum`, { a: 2, b: 3 }))).toContain('5')
      expect(textOf(await call(app, `mcp__${server}__get-tiny-image`))).toMatch(/\[image, image\/png/)
    }
    const path = `${directory}/note.txt`
    const written = await call(app, 'mcp__files__write_file', { path, content: 'by way of MCP' })
    expect(written.isError).toBe(false)
    expect((await call(app, 'mcp__files__read_text_file', { path })).value.structuredContent.content).toBe(
      'by way of MCP'
    )
    expect((await call(app, 'mcp__files__read_text_file', { path: '/etc/passwd' })).error.info.code).toBe(
      'MCP_TOOL_FAILED'
    )
    expect((await call(app, 'mcp__files__read_text_file', {})).isError).toBe(true)
  })
})

async function bodyOf(request: IncomingMessage): Promise<any> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return JSON.parse(Buffer.concat(chunks).toString())
}

async function listening(
  handle: (request: IncomingMessage, response: ServerResponse) => unknown
): Promise<{ server: Server; url: string }> {
  const server = createServer((request, response) => void handle(request, response))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}
