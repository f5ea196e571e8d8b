import { once } from 'node:events'
import { Agent, get, type IncomingMessage } from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import { EventClient, serveApp, type ServedApp } from '../helpers/served-app.ts'
import { sendRaw, statusOf, upgradeRequest } from '../helpers/raw-http.ts'
import { until } from '../helpers/until.ts'

describe('GET /events as a WebSocket', () => {
  it('replays what is stored, then goes on live, without a gap or a double', async () => {
    const served = await serveApp()
    for (const type of ['a/one', 'a/two', 'a/three']) await served.append('s', type)
    const client = await EventClient.open(served)
    expect(client.socket.protocol).toBe('toolwright.v1')
    expect(client.socket.extensions).toBe('')
    const first = await client.ask({ type: 'subscribe', id: 'x', session: 's', after: 0 })
    expect(first).toEqual({ type: 'subscribed', id: 'x', head: 2, logId: served.app.eventLog.logId })
    await served.append('s', 'a/four')
    await served.append('other', 'a/five')
    await served.append('s', 'b/six')
    await client.next(({ event }) => event?.type === 'b/six')
    expect(client.events('x')).toEqual(['a/two', 'a/three', 'a/four', 'b/six'])
    expect(client.frames[1]).toMatchObject({
      event: { seq: 1, session: 's', position: expect.any(Number), data: { text: 'a/two' } }
    })
  })

  it('sends only the types asked for, and nothing after an unsubscribe', async () => {
    const served = await serveApp()
    const client = await EventClient.open(served)
    await client.ask({ type: 'subscribe', id: 'x', events: ['a/*'] })
    await client.ask({ type: 'subscribe', id: 'y', events: ['b/one'] })
    for (const type of ['a/one', 'b/one', 'b/two', 'a/two']) await served.append('s', type)
    await client.next(({ event }) => event?.type === 'a/two')
    client.send({ type: 'unsubscribe', id: 'x' })
    expect(await client.ask({ type: 'unsubscribe', id: 'x' })).toMatchObject({
      type: 'error',
      id: 'x',
      code: 'NOT_FOUND'
    })
    await served.append('s', 'a/three')
    await served.append('s', 'b/one')
    await until(() => client.events('y').length === 2)
    expect(client.events('x')).toEqual(['a/one', 'a/two'])
    expect(client.events('y')).toEqual(['b/one', 'b/one'])
  })

  it('carries live events, which have no seq', async () => {
    const served = await serveApp()
    const client = await EventClient.open(served)
    await client.ask({ type: 'subscribe', id: 'x', events: ['tool/progress'] })
    served.app.liveEvents.publish('tool/progress', {
      callId: 'c',
      name: 't',
      chunk: 'hi',
      session: 's',
      scope: 'global'
    })
    const { event } = await client.next(({ type }) => type === 'event')
    expect(event).toMatchObject({ type: 'tool/progress', data: { callId: 'c', chunk: 'hi' } })
    expect(event).not.toHaveProperty('seq')
  })

  it('tells of another log, and of a cursor beyond the head', async () => {
    const served = await serveApp()
    await served.append('s', 'a/one')
    const client = await EventClient.open(served)
    const { logId } = served.app.eventLog
    for (const cursor of [{ after: 9 }, { after: 0, logId: 'another' }, { logId: 'another' }]) {
      expect(await client.ask({ type: 'subscribe', id: 'x', session: 's', ...cursor })).toMatchObject({
        type: 'error',
        id: 'x',
        code: 'LOG_RESET',
        logId,
        head: 0
      })
    }
    expect(await client.ask({ type: 'subscribe', id: 'x', session: 's', after: 0, logId })).toMatchObject({
      type: 'subscribed'
    })
  })

  it('a subscription under an id in use replaces the other', async () => {
    const served = await serveApp()
    const client = await EventClient.open(served)
    await client.ask({ type: 'subscribe', id: 'x', events: ['a/*'] })
    client.send({ type: 'subscribe', id: 'x', events: ['b/*'] })
    await until(() => client.frames.length === 2)
    for (const type of ['a/one', 'b/one']) await served.append('s', type)
    await client.next(({ event }) => event?.type === 'b/one')
    expect(client.events('x')).toEqual(['b/one'])
    expect(served.app.fanOut.size).toBe(1)
  })

  it('has a limit of subscriptions, and frees all of them with the socket', async () => {
    const served = await serveApp({ 'ws.maxSubscriptions': '3' })
    const client = await EventClient.open(served)
    for (const id of ['a', 'b', 'c'])
      expect(await client.ask({ type: 'subscribe', id })).toMatchObject({ type: 'subscribed' })
    expect(await client.ask({ type: 'subscribe', id: 'd' })).toMatchObject({
      type: 'error',
      id: 'd',
      code: 'RATE_LIMITED'
    })
    expect(await client.ask({ type: 'subscribe', id: 'a' })).toMatchObject({ type: 'subscribed', id: 'a' })
    client.send({ type: 'unsubscribe', id: 'b' })
    expect(await client.ask({ type: 'subscribe', id: 'd' })).toMatchObject({ type: 'subscribed', id: 'd' })
    client.socket.close()
    await until(() => served.app.fanOut.size === 0 && served.app.connections.size === 0)
  })

  it('a socket that goes while its subscriptions are being opened leaves none', async () => {
    const served = await serveApp()
    for (let round = 0; round < 20; round++) {
      const client = await EventClient.open(served)
      for (const id of ['a', 'b', 'c']) client.send({ type: 'subscribe', id, after: -1 })
      client.socket.terminate()
    }
    await until(() => served.app.fanOut.size === 0 && served.app.connections.size === 0)
  })

  it('answers what is no frame with BAD_FRAME, and lives', async () => {
    const client = await EventClient.open(await serveApp())
    const bad: unknown[] = [
      '',
      'x',
      'null',
      '[]',
      '"subscribe"',
      '{"type":"subscribe"',
      {},
      { type: 7 },
      { type: 'nothing' },
      { type: 'constructor' },
      { type: '__proto__' },
      { type: 'subscribe' },
      { type: 'subscribe', id: '' },
      { type: 'subscribe', id: 'a'.repeat(257) },
      { type: 'subscribe', id: 'x', more: 1 },
      { type: 'subscribe', id: 'x', after: '1' },
      { type: 'subscribe', id: 'x', after: -2 },
      { type: 'subscribe', id: 'x', after: 1.5 },
      { type: 'subscribe', id: 'x', session: '../x' },
      { type: 'subscribe', id: 'x', events: [] },
      { type: 'subscribe', id: 'x', events: ['a*b'] },
      '{"type":"subscribe","id":"x","__proto__":{"polluted":true}}',
      '{"type":"subscribe","id":"x","constructor":{"prototype":{"polluted":true}}}',
      `{"type":"subscribe","id":"x","a":${'['.repeat(300)}${']'.repeat(300)}}`,
      Buffer.from('{"type":"subscribe","id":"x"}')
    ]
    for (const frame of bad) {
      const asked = typeof frame === 'string' || !Buffer.isBuffer(frame) ? frame : Buffer.from(frame)
      expect([frame, await client.ask(asked)]).toEqual([
        frame,
        expect.objectContaining({ type: 'error', code: 'BAD_FRAME' })
      ])
    }
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined()
    expect(await client.ask({ type: 'subscribe', id: 'x' })).toMatchObject({ type: 'subscribed' })
  })

  it('closes with 1009 on a frame that is too large, and serves the others', async () => {
    const served = await serveApp()
    const [client, other] = [await EventClient.open(served), await EventClient.open(served)]
    client.send(`{"type":"subscribe","id":"${'a'.repeat(1024 * 1024)}"}`)
    expect(await client.closed).toBe(1009)
    expect(await other.ask({ type: 'subscribe', id: 'x' })).toMatchObject({ type: 'subscribed' })
  })

  it('reads no more than its rate from a socket, and loses nothing', async () => {
    const client = await EventClient.open(await serveApp({ 'ws.framesPerSecond': '20' }))
    for (let n = 0; n < 50; n++) client.send({ type: 'unsubscribe', id: `n${n}` })
    await until(() => client.frames.length >= 20)
    await until(() => client.frames.length === 50)
    expect(client.frames.map((frame) => frame['id'])).toEqual(Array.from({ length: 50 }, (_, n) => `n${n}`))
  })

  it('S28 is closed with 4403 when its token is revoked, and gets no later event', async () => {
    const served = await serveApp()
    const token = await served.tokenFor('observer')
    const client = await EventClient.open(served, token)
    await client.ask({ type: 'subscribe', id: 'x' })
    await served.app.tokens.revoke(token.split('_')[1] as string)
    await served.append('s', 'a/one')
    expect(await client.closed).toBe(4403)
    expect(client.events('x')).toEqual([])
  })

  it('is closed with 4403 when its token expires', async () => {
    const served = await serveApp()
    const { token } = await served.app.tokens.create({ label: '', role: 'observer', scope: 'global', ttlMs: 300 })
    expect(await (await EventClient.open(served, token)).closed).toBe(4403)
  })

  it('is closed with 1001 when the server shuts down', async () => {
    const served = await serveApp()
    const client = await EventClient.open(served)
    await served.app.close()
    expect(await client.closed).toBe(1001)
  })

  it('is closed with 1013 when it answers no ping', async () => {
    const served = await serveApp({ 'ws.pingIntervalMs': '100' })
    const lively = await EventClient.open(served)
    const client = await EventClient.open(served, served.admin, { autoPong: false })
    expect(await client.closed).toBe(1013)
    expect(lively.socket.readyState).toBe(lively.socket.OPEN)
  })

  it('is not closed for a pong that came while the server was held up', async () => {
    const served = await serveApp({ 'ws.pingIntervalMs': '100' })
    const client = await EventClient.open(served, served.admin, { autoPong: false })
    let pings = 0
    client.socket.on('ping', () => {
      pings += 1
      client.socket.pong()
      // As when it is stopped: the pong is there, the next beat is due, and timers come first.
      if (pings === 1) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 350)
    })
    expect(await Promise.race([client.closed, until(() => pings >= 4)])).toBeUndefined()
  })

  it('is cut off when it reads nothing for too long, without growing the memory', async () => {
    const served = await serveApp({ 'ws.pingIntervalMs': '100', 'ws.stallTimeoutMs': '300', 'drain.killMs': '300' })
    const client = await EventClient.open(served)
    await client.ask({ type: 'subscribe', id: 'x' })
    client.socket.pause()
    const chunk = 'x'.repeat(100_000)
    const [socket] = served.app.websocketServer.clients
    let most = 0
    await until(() => {
      for (let n = 0; n < 20; n++) {
        served.app.liveEvents.publish('tool/progress', { callId: 'c', name: 't', chunk, session: 's', scope: 'global' })
      }
      most = Math.max(most, socket?.bufferedAmount ?? 0)
      return served.app.connections.size === 0
    })
    expect(most).toBeGreaterThan(1024 * 1024)
    expect(most).toBeLessThan(1.3 * 1024 * 1024)
  })

  it('tells a reader that fell behind how many live events it missed, and lacks no stored one', async () => {
    const served = await serveApp()
    const client = await EventClient.open(served)
    await client.ask({ type: 'subscribe', id: 'x' })
    client.socket.pause()
    const [socket] = served.app.websocketServer.clients
    const chunk = 'x'.repeat(100_000)
    let published = 0
    await until(() => {
      published++
      served.app.liveEvents.publish('tool/progress', { callId: 'c', name: 't', chunk, session: 's', scope: 'global' })
      return (socket?.bufferedAmount ?? 0) > 1024 * 1024
    })
    for (let n = 0; n < 5; n++) {
      published++
      served.app.liveEvents.publish('tool/progress', { callId: 'c', name: 't', chunk, session: 's', scope: 'global' })
    }
    for (let n = 0; n < 10; n++) await served.append('s', `a/n${'i'.repeat(n)}`)
    client.socket.resume()
    const gap = await client.next(({ type }) => type === 'gap')
    await until(() => client.events('x').filter((type) => type.startsWith('a/')).length === 10)
    const events = client.events('x')
    const dropped = Number(gap['dropped'])
    expect(dropped).toBeGreaterThanOrEqual(5)
    expect(events.filter((type) => type === 'tool/progress')).toHaveLength(published - dropped)
    expect(events.filter((type) => type.startsWith('a/'))).toEqual(
      Array.from({ length: 10 }, (_, n) => `a/n${'i'.repeat(n)}`)
    )
  })

  it('refuses sockets beyond the limits', async () => {
    const served = await serveApp({ 'ws.maxSocketsPerToken': '1', 'ws.maxSockets': '2' })
    const tokens = [
      await served.tokenFor('observer'),
      await served.tokenFor('observer'),
      await served.tokenFor('observer')
    ]
    const upgrade = async (token = ''): Promise<number> =>
      statusOf(
        await sendRaw(
          served.port,
          upgradeRequest('/events', { Host: `127.0.0.1:${served.port}`, Authorization: `Bearer ${token}` }),
          '\r\n\r\n'
        )
      )
    await EventClient.open(served, tokens[0])
    expect(await upgrade(tokens[0])).toBe(429)
    await EventClient.open(served, tokens[1])
    expect(await upgrade(tokens[2])).toBe(503)
  })
})

describe('GET /events and what a token may see', () => {
  async function withScopes(): Promise<ServedApp> {
    const served = await serveApp()
    const a = served.app.scopes.create('a')
    served.app.scopes.create('a1', a)
    served.app.scopes.create('b')
    await served.append('in-a1', 'seen/a1', 'a1')
    await served.append('in-b', 'seen/b', 'b')
    await served.append('in-global', 'seen/global')
    return served
  }

  it('sends only events of its scope and below, stored and live', async () => {
    const served = await withScopes()
    const client = await EventClient.open(served, await served.tokenFor('observer', 'a'))
    await client.ask({ type: 'subscribe', id: 'x', after: -1 })
    await served.append('in-b', 'seen/b')
    await served.append('in-a1', 'seen/a1-again')
    await client.next(({ event }) => event?.type === 'seen/a1-again')
    expect(client.events('x')).toEqual(['seen/a1', 'seen/a1-again'])
  })

  it('S27 what lies outside is as if it were not there', async () => {
    const served = await withScopes()
    const client = await EventClient.open(served, await served.tokenFor('observer', 'a'))
    const answers = []
    for (const session of ['in-b', 'in-global', 'nowhere']) {
      const answer = await client.ask({ type: 'subscribe', id: 'x', session, after: -1 })
      expect(answer).toMatchObject({ code: 'UNKNOWN_SESSION' })
      answers.push(JSON.stringify(answer).replace(session, ''))
    }
    for (const scope of ['b', 'global', 'nothing']) {
      const answer = await client.ask({ type: 'subscribe', id: 'x', scope })
      expect(answer).toMatchObject({ code: 'UNKNOWN_SCOPE' })
    }
    expect(new Set(answers).size).toBe(1)
    expect(await client.ask({ type: 'subscribe', id: 'x', scope: 'a1', session: 'in-a1', after: -1 })).toMatchObject({
      head: 0
    })
  })

  it('a scope made later is seen by who sees its parent', async () => {
    const served = await withScopes()
    const client = await EventClient.open(served, await served.tokenFor('observer', 'a'))
    await client.ask({ type: 'subscribe', id: 'x' })
    served.app.scopes.create('a2', served.app.scopes.get('a'))
    await served.append('in-a2', 'seen/a2', 'a2')
    await client.next(({ event }) => event?.type === 'seen/a2')
  })

  it('a provider has the socket, and no events', async () => {
    const served = await withScopes()
    const token = await served.tokenFor('provider')
    const client = await EventClient.open(served, token)
    expect(await client.ask({ type: 'subscribe', id: 'x' })).toMatchObject({
      type: 'error',
      id: 'x',
      code: 'FORBIDDEN'
    })
    expect((await served.call('/events', { token })).status).toBe(403)
  })
})

describe('GET /events as Server-Sent Events', () => {
  /** Reads the stream until `done` holds of what came, and hangs up. */
  async function readStream(
    served: ServedApp,
    query: string,
    headers: Record<string, string>,
    done: (text: string) => boolean
  ) {
    const answer = await served.call(`/events${query}`, { headers: { accept: 'text/event-stream', ...headers } })
    expect(answer.status).toBe(200)
    expect(answer.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader()
    let text = ''
    while (!done(text)) {
      const { value, done: isOver } = await reader.read()
      if (isOver) break
      text += new TextDecoder().decode(value)
    }
    await reader.cancel()
    return text
  }

  it('replays after the cursor, and after Last-Event-ID, and goes on live', async () => {
    const served = await serveApp()
    for (const type of ['a/one', 'a/two']) await served.append('s', type)
    const all = await readStream(served, '?session=s&after=-1', {}, (text) => text.includes('a/two'))
    expect(all).toContain('event: subscribed\n')
    expect(all.match(/^id: (\d+)$/gm)).toEqual(['id: 0', 'id: 1'])
    const rest = readStream(served, '?session=s&after=-1', { 'last-event-id': '0' }, (text) => text.includes('a/three'))
    await until(() => served.app.fanOut.size > 0)
    await served.append('s', 'a/three')
    expect((await rest).match(/^id: (\d+)$/gm)).toEqual(['id: 1', 'id: 2'])
    await until(() => served.app.fanOut.size === 0 && served.app.connections.size === 0)
  })

  it('ends when the token is revoked, and when the server shuts down', async () => {
    const served = await serveApp()
    const token = await served.tokenFor('observer')
    const [first, second] = [await served.call('/events', { token }), await served.call('/events')]
    await served.app.tokens.revoke(token.split('_')[1] as string)
    await first.text()
    const closing = served.app.close()
    await second.text()
    await closing
  })

  it('one that the server ends is over, also when its connection is kept', async () => {
    const served = await serveApp()
    const token = await served.tokenFor('observer')
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    onTestFinished(() => agent.destroy())
    const ask = async (path: string, with_: string) => {
      const request = get({
        host: '127.0.0.1',
        port: served.port,
        path,
        agent,
        headers: { authorization: `Bearer ${with_}` }
      })
      const [answer] = (await once(request, 'response')) as [IncomingMessage]
      return answer
    }
    const stream = await ask('/events', token)
    const { socket } = stream
    await until(() => served.app.fanOut.size === 1)
    stream.resume()
    await served.app.tokens.revoke(token.split('_')[1] as string)
    await once(stream, 'end')
    await until(() => served.app.fanOut.size === 0 && served.app.connections.size === 0)
    const next = await ask('/sessions', served.admin)
    next.resume()
    expect([next.statusCode, next.socket === socket]).toEqual([200, true])
  })

  it('answers what cannot be streamed with a status', async () => {
    const served = await serveApp()
    const code = async (query: string, headers: Record<string, string> = {}) => {
      const answer = await served.call(`/events${query}`, { headers })
      return `${answer.status} ${((await answer.json()) as { error: { code: string } }).error.code}`
    }
    expect(await code('', { accept: 'application/json' })).toBe('406 NOT_ACCEPTABLE')
    expect(await code('?after=99')).toBe('409 LOG_RESET')
    expect(await code('?scope=nothing')).toBe('404 UNKNOWN_SCOPE')
    expect(await code('?after=x')).toBe('400 BAD_REQUEST')
    expect(await code('?after=-2')).toBe('400 BAD_REQUEST')
    expect(await code('?more=1')).toBe('400 BAD_REQUEST')
    expect(await code('', { 'last-event-id': 'x' })).toBe('400 BAD_REQUEST')
    expect((await served.call('/events', { method: 'HEAD' })).status).toBe(405)
    await until(() => served.app.fanOut.size === 0 && served.app.connections.size === 0)
  })
})
