import { createHmac } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import { AddressGuard } from '../../server/backends/web/address-guard.ts'
import { HttpExecutor, toolUrl } from '../../server/executors/http-executor.ts'
import type { HttpToolClient } from '../../server/executors/http-executor-client.ts'
import { reported, type ReportFailure } from '../../server/executors/http-executor-report.ts'
import { httpExecutor, httpToolClient, wireCall } from '../helpers/http-tools.ts'
import { until } from '../helpers/until.ts'
import { serveBytes, serveWeb } from '../helpers/web-server.ts'

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const piece of request) text += String(piece)
  return text
}

function json(response: ServerResponse, value: unknown, status = 200, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value))
}

/** A raw answer, then the end of the connection. */
const raw = (text: string) => serveBytes((socket) => void socket.end(text))

describe('a call', () => {
  it('is posted as JSON, signed over time and body, with its deadline; the answer is the value', async () => {
    const seen: {
      body: string
      headers: IncomingMessage['headers']
      method?: string | undefined
      url?: string | undefined
    }[] = []
    const server = await serveWeb((request, response) => {
      void bodyOf(request).then((body) => {
        seen.push({ body, headers: request.headers, method: request.method, url: request.url })
        json(response, { value: { ok: [1, null, 'ü'] }, content: [{ type: 'text', text: 'fine' }] })
      })
    })
    const deadlineAt = Date.now() + 60_000
    const answer = await httpExecutor(`${server.origin}/tools/x?v=1`).run(wireCall({ deadlineAt }))
    expect(answer).toEqual({ value: { ok: [1, null, 'ü'] }, content: [{ type: 'text', text: 'fine' }] })
    const [{ body, headers, method, url } = {} as never] = seen
    expect([method, url]).toEqual(['POST', '/tools/x?v=1'])
    expect(JSON.parse(body)).toEqual({
      callId: 'c1',
      name: 'remote',
      arguments: { city: 'Graz' },
      scope: 'team-a',
      session: 's1'
    })
    expect(headers['x-toolwright-deadline']).toBe(String(deadlineAt))
    expect(headers['content-type']).toBe('application/json')
    const [, time, mac] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(headers['x-toolwright-signature'])) ?? []
    expect(Math.abs(Number(time) - Date.now())).toBeLessThan(60_000)
    expect(mac).toBe(createHmac('sha256', 'signing-secret').update(`${time}.${body}`).digest('hex'))
  })

  it('without a session and a deadline of its own is told the default deadline', async () => {
    let headers: IncomingMessage['headers'] = {}
    let body = ''
    const server = await serveWeb((request, response) => {
      headers = request.headers
      void bodyOf(request).then((text) => ((body = text), json(response, { value: null })))
    })
    const { session: _session, ...call } = wireCall()
    expect(await httpExecutor(server.origin).run(call)).toEqual({ value: null })
    expect(JSON.parse(body)).not.toHaveProperty('session')
    expect(Number(headers['x-toolwright-deadline'])).toBeGreaterThan(Date.now())
  })

  it('takes headers of others, which cannot stand in for those of the protocol', async () => {
    let headers: IncomingMessage['headers'] = {}
    const server = await serveWeb((request, response) => ((headers = request.headers), json(response, { value: 1 })))
    const headersOf = () => ({ traceparent: '00-1-1-01', 'x-toolwright-signature': 'forged' })
    await new HttpExecutor({ url: new URL(server.origin), client: httpToolClient(), secret: 's', headersOf }).run(
      wireCall()
    )
    expect(headers['traceparent']).toBe('00-1-1-01')
    expect(headers['x-toolwright-signature']).toMatch(/^t=/)
  })

  it('keeps its connection for the next, and leaves none when the client is closed', async () => {
    const server = await serveWeb((_request, response) => json(response, { value: 1 }))
    const connections = new Set<number | undefined>()
    const client = httpToolClient()
    const executor = httpExecutor(server.origin, client)
    for (let round = 0; round < 5; round += 1) {
      await executor.run(wireCall())
      for (const { remotePort } of server.sockets) connections.add(remotePort)
    }
    // The second begins before undici has the first one's connection back.
    expect(connections.size).toBeLessThanOrEqual(2)
    await client.close()
    await until(() => server.sockets.size === 0)
    await expect(executor.run(wireCall())).rejects.toMatchObject({ code: 'HTTP_TOOL_UNREACHABLE', effect: 'none' })
  })

  it('values come back lossless, `__proto__` as a key of its own', async () => {
    const server = await serveWeb((_request, response) => {
      response.setHeader('content-type', 'application/json; charset=UTF-8').end('{"value":{"__proto__":{"a":1}}}')
    })
    const { value } = await httpExecutor(server.origin).run(wireCall())
    expect(Object.keys(value as object)).toEqual(['__proto__'])
    expect(({} as Record<string, unknown>)['a']).toBeUndefined()
  })
})

describe('a failure of the tool', () => {
  it('has its own message and code; codes of ours are not its to give', async () => {
    const answers = [
      [{ error: { message: 'no such city', code: 'NO_CITY' } }, 200, { code: 'NO_CITY', message: 'no such city' }],
      [{ error: { message: 'no' } }, 200, { code: 'TOOL_FAILED', message: 'no' }],
      [{ error: { message: 'no', code: 'INVALID_ARGS' } }, 200, { code: 'TOOL_FAILED' }],
      [
        { error: { message: 'no', code: 'TOOL_TIMEOUT' } },
        422,
        { code: 'HTTP_TOOL_STATUS', message: 'status 422: no' }
      ],
      [{ error: { message: 'no', code: 'NO_CITY' } }, 404, { code: 'NO_CITY', message: 'status 404: no' }],
      [{ error: 'no' }, 500, { code: 'HTTP_TOOL_STATUS' }],
      ...['HTTP_TOOL_BLOCKED', 'MCP_UNAVAILABLE', 'COMMAND_NOT_STARTED', 'SPAWN_FAILED', 'CODE_RUN_FAILED'].map(
        (code) => [{ error: { message: 'no', code } }, 200, { code: 'TOOL_FAILED' }] as const
      )
    ] as const
    for (const [body, status, error] of answers) {
      const server = await serveWeb((_request, response) => json(response, body, status))
      const failure = await httpExecutor(server.origin)
        .run(wireCall())
        .catch((thrown: unknown) => thrown)
      expect(failure).toMatchObject(error)
      expect((failure as { effect?: string }).effect).not.toBe('none')
    }
  })

  it('an integer that would be rounded is an output that is not valid (core.md §2.8)', async () => {
    const server = await serveWeb((_request, response) => {
      response.setHeader('content-type', 'application/json').end('{"value":{"id":9007199254740993}}')
    })
    const asking = httpExecutor(server.origin).run(wireCall())
    await expect(asking).rejects.toMatchObject({
      code: 'INVALID_TOOL_OUTPUT',
      message: expect.stringContaining('$.value.id')
    })
  })
})

describe('an answer that is none', () => {
  it.each([
    ['no JSON', 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 3\r\n\r\n{"v'],
    ['another type', 'HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 11\r\n\r\n{"value":1}'],
    ['no type', 'HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"value":1}'],
    ['nothing', 'HTTP/1.1 204 No Content\r\n\r\n'],
    ['no UTF-8', 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 13\r\n\r\n{"value":"\xff"}'],
    ['an array', 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n[]'],
    ['neither member', 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}'],
    [
      'both members',
      'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 38\r\n\r\n{"value":1,"error":{"message":"hello"}}'
    ],
    [
      'a coded body',
      'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: 11\r\n\r\n{"value":1}'
    ],
    [
      'too deep',
      `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2010\r\n\r\n{"value":${'['.repeat(1000)}${']'.repeat(1000)}}`
    ]
  ])('%s', async (_name, text) => {
    const server = await serveBytes((socket) => void socket.end(text, 'latin1'))
    const asking = httpExecutor(server.origin).run(wireCall())
    await expect(asking).rejects.toMatchObject({ code: 'HTTP_TOOL_BAD_ANSWER', effect: 'unknown' })
  })

  it('too large, declared or not, ends its connection', async () => {
    const declared = await serveWeb((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '200000' }).write('{')
    })
    const endless = await serveBytes((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n')
      const pour = (): void => {
        while (!socket.destroyed && socket.write(`1000\r\n${' '.repeat(4096)}\r\n`));
      }
      socket.on('drain', pour)
      pour()
    })
    for (const server of [declared, endless]) {
      const asking = httpExecutor(server.origin).run(wireCall())
      await expect(asking).rejects.toMatchObject({ code: 'HTTP_TOOL_ANSWER_TOO_LARGE', effect: 'unknown' })
      await until(() => server.sockets.size === 0)
    }
  })

  it('of a failure that is too large or compressed is its status', async () => {
    for (const headers of [{ 'content-encoding': 'gzip' }, { 'content-length': '200000' }, {}]) {
      const server = await serveWeb((_request, response) => {
        response.writeHead(500, { 'content-type': 'application/json', ...headers }).write('x'.repeat(150_000))
      })
      const asking = httpExecutor(server.origin).run(wireCall())
      await expect(asking).rejects.toMatchObject({
        code: 'HTTP_TOOL_STATUS',
        message: expect.stringContaining('500')
      })
      await until(() => server.sockets.size === 0)
    }
  })

  it('cut off in its middle, or no HTTP at all, is a lost connection', async () => {
    const texts = [
      'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"value":1}',
      'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nb\r\n{"value":1}\r\n',
      'HTTP/1.1 200 OK\r\ncontent-ty',
      '220 smtp.example ESMTP\r\n',
      ''
    ]
    for (const text of texts) {
      const asking = httpExecutor((await raw(text)).origin).run(wireCall())
      await expect(asking).rejects.toMatchObject({ code: 'HTTP_TOOL_DISCONNECTED', effect: 'unknown' })
    }
  })

  it('a reset in its middle is one as well', async () => {
    const server = await serveBytes((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{', () =>
        socket.resetAndDestroy()
      )
    })
    const asking = httpExecutor(server.origin).run(wireCall())
    await expect(asking).rejects.toMatchObject({ code: 'HTTP_TOOL_DISCONNECTED', effect: 'unknown' })
  })

  it('a 100 before it changes nothing', async () => {
    const server = await raw(
      'HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{"value":1}'
    )
    expect(await httpExecutor(server.origin).run(wireCall())).toEqual({ value: 1 })
  })
})

describe('S17 where a tool may be', () => {
  const strict = (allow: string[] = [], allowHosts: string[] = []) =>
    httpToolClient({ guard: new AddressGuard({ allow, ports: [] }), allowHosts })

  it('this machine and its network are refused, in every spelling, and nothing is sent', async () => {
    const server = await serveWeb((_request, response) => json(response, { value: 1 }))
    const hosts = ['127.0.0.1', 'localhost', '127.1', '2130706433', '0x7f.1', '[::ffff:127.0.0.1]', '0.0.0.0']
    const client = strict()
    for (const host of hosts) {
      const asking = httpExecutor(`http://${host}:${server.port}`, client).run(wireCall({ isIdempotent: true }))
      await expect(asking, host).rejects.toMatchObject({ code: 'HTTP_TOOL_BLOCKED', effect: 'none' })
    }
    expect(server.asked).toEqual([])
    expect(await httpExecutor(server.origin, strict(['127.0.0.1'])).run(wireCall())).toEqual({ value: 1 })
  })

  it('a list of hosts lets no others through', async () => {
    const server = await serveWeb((_request, response) => json(response, { value: 1 }))
    const { port } = server
    const allowed = (hosts: string[], host = '127.0.0.1') =>
      httpExecutor(`http://${host}:${port}`, strict(['127.0.0.1', '::1'], hosts)).run(wireCall())
    expect(await allowed(['127.0.0.1'])).toEqual({ value: 1 })
    expect(await allowed([`127.0.0.1:${port}`])).toEqual({ value: 1 })
    for (const hosts of [['tools.example'], [`127.0.0.1:${port + 1}`], ['*.example']]) {
      await expect(allowed(hosts)).rejects.toMatchObject({ code: 'HTTP_TOOL_BLOCKED', effect: 'none' })
    }
    expect(server.asked).toHaveLength(2)
  })

  it('a redirect is not followed, wherever it leads', async () => {
    const inner = await serveWeb((_request, response) => json(response, { value: 'secret' }))
    const server = await serveWeb(
      (_request, response) => void response.writeHead(307, { location: inner.origin }).end()
    )
    const asking = httpExecutor(server.origin).run(wireCall({ isIdempotent: true }))
    await expect(asking).rejects.toMatchObject({
      code: 'HTTP_TOOL_STATUS',
      message: expect.stringContaining('redirect')
    })
    expect(inner.asked).toEqual([])
  })

  it('URLs with credentials, fragments and of other kinds are no definitions', () => {
    for (const url of [
      'http://u:p@a.example',
      'http://u@a.example/',
      'http://a.example/#x',
      'ftp://a.example',
      'file:///etc/passwd',
      '/x',
      5,
      undefined,
      `http://a.example/${'x'.repeat(3_000)}`
    ]) {
      expect(() => toolUrl(url, 'executor.url')).toThrow(expect.objectContaining({ code: 'INVALID_DEFINITION' }))
    }
  })

  it('what is shown of it has no query', () => {
    expect(httpExecutor('https://a.example/t?key=hidden').describe()).toEqual({ url: 'https://a.example/t' })
  })
})

describe('an end before the answer', () => {
  it('an abort closes the connection', async () => {
    const server = await serveWeb(() => {})
    const abort = new AbortController()
    const asking = httpExecutor(server.origin).run(wireCall({ signal: abort.signal, isIdempotent: true }))
    asking.catch(() => undefined)
    await until(() => server.asked.length === 1)
    abort.abort()
    await expect(asking).rejects.toMatchObject({ code: 'ABORTED' })
    await until(() => server.sockets.size === 0)
    expect(server.asked).toHaveLength(1)
  })

  it('one before anything was sent had no effect, also while it waits for a connection', async () => {
    const answers: (() => void)[] = []
    const server = await serveWeb((_request, response) => void answers.push(() => json(response, { value: 1 })))
    const client = httpToolClient({ maxConnections: 1 })
    const aborted = AbortSignal.abort()
    await expect(httpExecutor(server.origin, client).run(wireCall({ signal: aborted }))).rejects.toMatchObject({
      code: 'ABORTED',
      effect: 'none'
    })
    const first = httpExecutor(server.origin, client).run(wireCall())
    await until(() => server.asked.length === 1)
    const abort = new AbortController()
    const second = httpExecutor(server.origin, client).run(wireCall({ signal: abort.signal }))
    abort.abort()
    await expect(second).rejects.toMatchObject({ code: 'ABORTED', effect: 'none' })
    answers[0]?.()
    expect(await first).toEqual({ value: 1 })
    const third = httpExecutor(server.origin, client).run(wireCall())
    await until(() => answers.length === 2)
    answers[1]?.()
    expect(await third).toEqual({ value: 1 })
    expect(server.asked).toHaveLength(2)
  })

  it('the time of a tool without a limit of its own is over at some point, also between the pieces of an answer', async () => {
    const silent = await serveWeb(() => {})
    const slow = await serveWeb((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).write('{"value":')
    })
    for (const server of [silent, slow]) {
      const asking = httpExecutor(server.origin, httpToolClient({ timeoutMs: 100 })).run(wireCall())
      await expect(asking).rejects.toMatchObject({ code: 'HTTP_TOOL_TIMEOUT' })
      await until(() => server.sockets.size === 0)
    }
  })

  it('the close of the client ends what is under way', async () => {
    const server = await serveWeb(() => {})
    const client = httpToolClient()
    const asking = httpExecutor(server.origin, client).run(wireCall())
    asking.catch(() => undefined)
    await until(() => server.asked.length === 1)
    await client.close()
    await expect(asking).rejects.toMatchObject({ code: 'HTTP_TOOL_DISCONNECTED', effect: 'unknown' })
    await until(() => server.sockets.size === 0)
  })
})

describe('a second try', () => {
  it('nobody at the port: no effect', async () => {
    const server = await serveWeb(() => {})
    const { port } = server
    for (const host of ['127.0.0.1', 'nowhere.invalid']) {
      // A port that is nobody's.
      const url = host === '127.0.0.1' ? `http://127.0.0.1:${port === 1 ? 2 : 1}` : `http://${host}`
      const asking = httpExecutor(url).run(wireCall())
      await expect(asking).rejects.toMatchObject({ code: 'HTTP_TOOL_UNREACHABLE', effect: 'none' })
    }
  })

  it('agents are told no address, operators are (api.md §9)', async () => {
    const told: Parameters<ReportFailure>[0][] = []
    const failureOf = async (url: string, client?: HttpToolClient): Promise<Error> => {
      const executor = reported(httpExecutor(url, client), new URL(url).origin, (details) => void told.push(details))
      return executor.run(wireCall()).catch((thrown: unknown) => thrown as Error) as Promise<Error>
    }
    const { port } = await serveWeb(() => {})
    const { origin: lost } = await serveWeb((request) => void request.socket.destroy())
    const { origin: busy } = await serveWeb((_request, response) => void response.writeHead(503).end())
    const { origin: odd } = await serveWeb((_request, response) => void response.end('?'))
    const cases = [
      [`http://127.0.0.1:${port === 1 ? 2 : 1}`, 'HTTP_TOOL_UNREACHABLE', /ECONNREFUSED 127\.0\.0\.1/],
      ['http://nowhere.invalid', 'HTTP_TOOL_UNREACHABLE', /nowhere\.invalid/],
      ['http://10.1.2.3', 'HTTP_TOOL_BLOCKED', /10\.1\.2\.3/],
      [lost, 'HTTP_TOOL_DISCONNECTED', /./],
      [busy, 'HTTP_TOOL_STATUS', /503/],
      [odd, 'HTTP_TOOL_BAD_ANSWER', /type/]
    ] as const
    for (const [url, code, reason] of cases) {
      const { message } = await failureOf(url)
      expect(message).toMatch(/^the (tool|answer of the tool)/)
      expect(message).not.toMatch(/127\.0\.0\.1|\d{4,}|nowhere|10\.1\.2/)
      expect(told.at(-1)).toMatchObject({ tool: 'remote', callId: 'c1', origin: url, code })
      expect(told.at(-1)!.error).toMatch(reason)
    }
    // What the tool says of itself is its own, and in the result.
    const { origin: unhappy } = await serveWeb((_request, response) => json(response, { error: { message: 'no' } }))
    expect((await failureOf(unhappy)).message).toBe('no')
    expect(told).toHaveLength(cases.length)
  })

  it('is made of an idempotent tool alone, and signed anew', async () => {
    const signatures: unknown[] = []
    const server = await serveWeb((request, response) => {
      signatures.push(request.headers['x-toolwright-signature'])
      if (signatures.length < 3) json(response, { error: { message: 'busy' } }, signatures.length === 1 ? 503 : 429)
      else json(response, { value: 'third' })
    })
    await expect(httpExecutor(server.origin).run(wireCall())).rejects.toMatchObject({ message: 'status 503: busy' })
    expect(signatures).toHaveLength(1)
    signatures.length = 0
    expect(await httpExecutor(server.origin).run(wireCall({ isIdempotent: true }))).toEqual({ value: 'third' })
    expect(signatures).toHaveLength(3)
  })

  it('has an end, and what the last one said counts', async () => {
    const server = await serveWeb((_request, response) => json(response, {}, 502))
    const asking = httpExecutor(server.origin, httpToolClient({ maxRetries: 1 })).run(wireCall({ isIdempotent: true }))
    await expect(asking).rejects.toMatchObject({ code: 'HTTP_TOOL_STATUS', message: expect.stringContaining('502') })
    expect(server.asked).toHaveLength(2)
  })

  it('is not made of statuses that do not pass', async () => {
    for (const status of [400, 401, 404, 500, 501]) {
      const server = await serveWeb((_request, response) => json(response, {}, status))
      await expect(httpExecutor(server.origin).run(wireCall({ isIdempotent: true }))).rejects.toMatchObject({
        code: 'HTTP_TOOL_STATUS'
      })
      expect(server.asked).toHaveLength(1)
    }
  })

  it('waits as long as the server asks, unless the deadline is sooner', async () => {
    let asked = 0
    const server = await serveWeb((_request, response) => {
      asked += 1
      json(response, { value: asked }, asked === 1 ? 503 : 200, { 'retry-after': '0' })
    })
    expect(await httpExecutor(server.origin).run(wireCall({ isIdempotent: true }))).toEqual({ value: 2 })
    for (const retryAfter of ['3600', new Date(Date.now() + 3_600_000).toUTCString()]) {
      const busy = await serveWeb((_request, response) => json(response, {}, 503, { 'retry-after': retryAfter }))
      await expect(httpExecutor(busy.origin).run(wireCall({ isIdempotent: true }))).rejects.toMatchObject({
        code: 'HTTP_TOOL_STATUS'
      })
      expect(busy.asked).toHaveLength(1)
    }
  })

  it('an abort ends the wait for it', async () => {
    const server = await serveWeb((_request, response) => json(response, {}, 503, { 'retry-after': '30' }))
    const abort = new AbortController()
    const asking = httpExecutor(server.origin).run(wireCall({ isIdempotent: true, signal: abort.signal }))
    asking.catch(() => undefined)
    await until(() => server.asked.length === 1)
    abort.abort()
    await expect(asking).rejects.toMatchObject({ code: 'ABORTED' })
  })

  it('a connection that the server drops as the request comes (keep-alive): unknown, or tried again if that does no harm', async () => {
    let requests = 0
    const server = await serveWeb((request, response) => {
      requests += 1
      // Each second request meets a connection that is just being closed.
      if (requests % 2 === 0) request.socket.destroy()
      else json(response, { value: requests })
    })
    const client = httpToolClient()
    const executor = httpExecutor(server.origin, client)
    expect(await executor.run(wireCall())).toEqual({ value: 1 })
    await expect(executor.run(wireCall())).rejects.toMatchObject({ code: 'HTTP_TOOL_DISCONNECTED', effect: 'unknown' })
    expect(await executor.run(wireCall({ isIdempotent: true }))).toEqual({ value: 3 })
    expect(await executor.run(wireCall({ isIdempotent: true }))).toEqual({ value: 5 })
  })

  it('one that reached nobody does not undo what an earlier one may have done', async () => {
    let port = 0
    const server = await serveWeb((request) => {
      // Nobody is there any more when it is tried again.
      request.socket.destroy()
      for (const socket of server.sockets) socket.destroy()
      closeListener()
    })
    port = server.port
    const closeListener = (): void => server.stopListening()
    const asking = httpExecutor(`http://127.0.0.1:${port}`).run(wireCall({ isIdempotent: true }))
    await expect(asking).rejects.toMatchObject({ code: 'HTTP_TOOL_UNREACHABLE', effect: 'unknown' })
  })

  it('many calls at once share the connections there may be', async () => {
    let most = 0
    const server = await serveWeb((_request, response) => {
      most = Math.max(most, server.sockets.size)
      json(response, { value: 1 })
    })
    const executor = httpExecutor(server.origin, httpToolClient({ maxConnections: 4 }))
    await Promise.all(Array.from({ length: 100 }, () => executor.run(wireCall())))
    expect(most).toBeLessThanOrEqual(4)
  })
})
