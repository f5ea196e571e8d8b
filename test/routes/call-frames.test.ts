import { describe, expect, it } from 'vitest'
import { startApp, type TestApp } from '../helpers/app.ts'
import { EventClient, type Frame } from '../helpers/served-app.ts'
import { until } from '../helpers/until.ts'

const gate = (callId: string) => ({ name: 'gate', callId, arguments: { id: callId } })

async function withSocket(settings: Record<string, string> = {}, token?: string) {
  const app = await startApp(settings)
  return { app, client: await EventClient.open(app.served, token) }
}

const answerTo = (client: EventClient, id: string): Promise<Frame> => client.next((frame) => frame['id'] === id)

const without = ({ type: _type, id: _id, ...answer }: Frame) => answer

const doneCode = async (app: TestApp, callId: string) =>
  (await app.report(callId, 'default', '?waitMs=10000')).body.result?.error?.info?.code

describe('invoke frames (api.md §5)', () => {
  it('are answered as POST /invoke is, each under its id, and are in the log as its calls are', async () => {
    const { app, client } = await withSocket()
    client.send({ type: 'invoke', id: 'a', ...gate('c1') })
    client.send({ type: 'invoke', id: 'b', name: 'echo', callId: 'c2', arguments: { text: 'hi' }, step: 7 })
    client.send({ type: 'invoke', id: 'c', name: 'need', callId: 'c3' })
    expect(await answerTo(client, 'b')).toMatchObject({ type: 'result', callId: 'c2', value: 'hi', isError: false })
    expect(await answerTo(client, 'c')).toMatchObject({
      type: 'result',
      isError: true,
      error: { info: { code: 'INVALID_ARGS' }, effect: 'none', retryable: false }
    })
    app.release('c1')
    const first = without(await answerTo(client, 'a'))
    const same = await app.post('/invoke', gate('c1'))
    expect(same.body).toEqual({ ...first, replayed: true })
    expect((await app.log()).filter((line) => line.startsWith('tool/call')).toSorted()).toEqual([
      'tool/call c1',
      'tool/call c2',
      'tool/call c3'
    ])
  })

  it('a callId attaches, replays and conflicts over the socket as over HTTP', async () => {
    const { app, client } = await withSocket()
    const overHttp = app.post('/invoke', gate('c1'))
    await app.entered('c1')
    client.send({ type: 'invoke', id: 'a', ...gate('c1') })
    expect(await client.ask({ type: 'invoke', id: 'x', ...gate('c1'), name: 'echo' })).toMatchObject({
      type: 'error',
      id: 'x',
      code: 'CALL_CONFLICT'
    })
    app.release('c1')
    expect(without(await answerTo(client, 'a'))).toEqual((await overHttp).body)
    expect(await client.ask({ type: 'invoke', id: 'b', ...gate('c1') })).toMatchObject({
      value: 'done-c1',
      replayed: true
    })
    expect(app.trace.filter((entry) => entry === 'body:c1')).toHaveLength(1)
  })

  it('arguments are taken exactly as they were sent', async () => {
    const { app, client } = await withSocket()
    client.send('{"type":"invoke","id":"a","name":"boom","callId":"c1","arguments":{"__proto__":{"a":1},"b":1.0}}')
    await answerTo(client, 'a')
    const [call] = (await app.events()).filter(({ type }) => type === 'tool/call')
    expect(call?.data.arguments).toBe('{"__proto__":{"a":1},"b":1}')
    client.send('{"type":"invoke","id":"b","name":"echo","arguments":{"text":9007199254740993}}')
    expect(await answerTo(client, 'b')).toMatchObject({ type: 'result', error: { info: { code: 'INVALID_ARGS' } } })
    client.send('{"type":"invoke","id":"c","name":"echo","rawArguments":"{\\"text\\": \\"raw\\"}"}')
    expect(await answerTo(client, 'c')).toMatchObject({ value: 'raw' })
    for (const frame of [
      '{"type":"invoke","id":"d","name":"echo","__proto__":{}}',
      '{"type":"invoke","id":"d","name":"echo","more":1}',
      '{"type":"invoke","id":"d"}',
      '{"type":"invoke","name":"echo"}',
      '{"type":"invoke","id":"d","name":"echo","session":"../x"}',
      '{"type":"invoke","id":"d","name":"echo","onDisconnect":"maybe"}'
    ]) {
      expect([frame, await client.ask(frame)]).toEqual([frame, expect.objectContaining({ code: 'BAD_FRAME' })])
    }
    expect(
      await client.ask({ type: 'invoke', id: 'd', name: 'echo', arguments: {}, rawArguments: '{}' })
    ).toMatchObject({ type: 'error', code: 'BAD_REQUEST' })
  })

  it('what a token may not do or see is refused as over HTTP', async () => {
    const { app, client } = await withSocket()
    app.app.tools.child('a')
    app.app.tools.child('b')
    await client.ask({ type: 'invoke', id: 'a', name: 'echo', scope: 'b', session: 'of-b', callId: 'c' })
    const agent = await EventClient.open(app.served, await app.served.tokenFor('agent', 'a'))
    const refusals: [Record<string, unknown>, string][] = [
      [{ type: 'invoke', name: 'echo', scope: 'b' }, 'UNKNOWN_SCOPE'],
      [{ type: 'invoke', name: 'echo', scope: 'global' }, 'UNKNOWN_SCOPE'],
      [{ type: 'invoke', name: 'echo', session: 'of-b' }, 'UNKNOWN_SESSION'],
      [{ type: 'cancel', session: 'of-b', callId: 'c' }, 'UNKNOWN_SESSION'],
      [{ type: 'cancel', session: 'nowhere', callId: 'c' }, 'UNKNOWN_SESSION']
    ]
    for (const [frame, code] of refusals)
      expect(await agent.ask({ id: 'x', ...frame })).toMatchObject({ id: 'x', code })
    expect(await agent.ask({ type: 'invoke', id: 'y', name: 'echo' })).toMatchObject({
      scope: 'a',
      session: 'a:default'
    })
    for (const role of ['observer', 'operator', 'provider'] as const) {
      const other = await EventClient.open(app.served, await app.served.tokenFor(role))
      expect(await other.ask({ type: 'invoke', id: 'z', name: 'echo' })).toMatchObject({ id: 'z', code: 'FORBIDDEN' })
    }
  })

  it('a socket has no more than its number of unanswered calls, and admission is that of POST /invoke', async () => {
    const { app, client } = await withSocket({ 'ws.maxCalls': '2', 'calls.maxConcurrent': '3', 'calls.maxQueued': '0' })
    for (const id of ['c1', 'c2']) client.send({ type: 'invoke', id, ...gate(id) })
    expect(await client.ask({ type: 'invoke', id: 'c3', ...gate('c3') })).toMatchObject({
      type: 'error',
      id: 'c3',
      code: 'RATE_LIMITED',
      details: { limit: 'ws.maxCalls', value: 2 }
    })
    const other = await EventClient.open(app.served)
    other.send({ type: 'invoke', id: 'c4', ...gate('c4') })
    await app.entered('c4')
    expect(await other.ask({ type: 'invoke', id: 'c5', ...gate('c5') })).toMatchObject({ code: 'OVERLOADED' })
    app.release('c1')
    await answerTo(client, 'c1')
    expect(await client.ask({ type: 'invoke', id: 'c6', name: 'echo' })).toMatchObject({ type: 'result' })
    for (const id of ['c2', 'c4']) app.release(id)
  })

  it('a socket that does not read its answers holds no more than its buffer and its unanswered calls', async () => {
    const { app, client } = await withSocket({ 'ws.maxCalls': '16', 'drain.killMs': '300' })
    app.boom = () => 'x'.repeat(500_000)
    const frame = { type: 'invoke', id: 'n', name: 'boom', callId: 'big' }
    const size = JSON.stringify(await client.ask(frame)).length
    client.socket.pause()
    const [socket] = app.app.websocketServer.clients
    let most = 0
    const buffered = (): number => {
      const now = socket?.bufferedAmount ?? 0
      most = Math.max(most, now)
      return now
    }
    for (let n = 0; n < 30; n += 1) client.send(frame)
    await until(() => buffered() > 1024 * 1024)
    for (let n = 0; n < 20; n += 1) {
      await app.report('big')
      buffered()
    }
    expect(most).toBeLessThan(1024 * 1024 + 1.5 * size)
    client.socket.resume()
    await until(() => client.frames.length === 31)
    const kinds = client.frames.map(({ type, code }) => `${type} ${String(code)}`)
    expect(kinds.filter((kind) => kind === 'result undefined').length).toBeGreaterThanOrEqual(17)
    expect(new Set(kinds)).toEqual(new Set(['result undefined', 'error RATE_LIMITED']))
  })

  describe('a socket that closes', () => {
    it('aborts its calls without a callId and lets those with one go on; onDisconnect says otherwise', async () => {
      const { app, client } = await withSocket()
      client.send({ type: 'invoke', id: 'a', name: 'coop' })
      client.send({ type: 'invoke', id: 'b', name: 'coop', callId: 'told', onDisconnect: 'abort' })
      client.send({ type: 'invoke', id: 'c', ...gate('named') })
      client.send({ type: 'invoke', id: 'd', name: 'gate', arguments: { id: 'goes-on' }, onDisconnect: 'continue' })
      await until(() => app.trace.length === 4)
      client.socket.terminate()
      expect(await doneCode(app, 'told')).toBe('ABORTED')
      await until(async () => (await app.log()).filter((line) => line.startsWith('tool/result')).length === 2)
      for (const id of ['named', 'goes-on']) app.release(id)
      expect((await app.report('named', 'default', '?waitMs=10000')).body.result?.value).toBe('done-named')
      await until(async () => (await app.log()).filter((line) => line.startsWith('tool/result')).length === 4)
    })

    it('with a frame still on its way leaves no call waiting for it', async () => {
      const { app } = await withSocket()
      for (let round = 0; round < 10; round += 1) {
        const client = await EventClient.open(app.served)
        client.send({ type: 'invoke', id: 'a', name: 'coop', session: `s${round}` })
        client.socket.terminate()
      }
      await until(() => app.app.connections.size === 1)
      await until(() => app.app.invocations.parts.calls.size === 0)
    })

    it('leaves alone what another caller waits for', async () => {
      const { app, client } = await withSocket()
      const body = { ...gate('c1'), onDisconnect: 'abort' }
      const stays = app.post('/invoke', body)
      await app.entered('c1')
      client.send({ type: 'invoke', id: 'a', ...body })
      await client.ask({ type: 'unsubscribe', id: 'none' })
      client.socket.terminate()
      await until(() => app.app.connections.size === 0)
      app.release('c1')
      expect((await stays).body.value).toBe('done-c1')
    })
  })

  it('a shutdown answers the calls that run, refuses new ones, and then closes with 1001', async () => {
    const { app, client } = await withSocket({ 'drain.drainMs': '5000' })
    client.send({ type: 'invoke', id: 'a', ...gate('c1') })
    await app.entered('c1')
    const closed = app.app.close()
    expect(await client.ask({ type: 'invoke', id: 'b', name: 'echo' })).toMatchObject({
      id: 'b',
      code: 'SHUTTING_DOWN'
    })
    app.release('c1')
    expect(await client.closed).toBe(1001)
    await closed
    expect(client.frames.find(({ id }) => id === 'a')).toMatchObject({ type: 'result', value: 'done-c1' })
  })

  it('a call that waits for a person when the server goes down tells where to ask for it', async () => {
    const { app, client } = await withSocket({ 'drain.drainMs': '5000' })
    app.app.tools.addHook('preExecute', () => ({ kind: 'ask' }))
    client.send({ type: 'invoke', id: 'a', name: 'echo', callId: 'c 1' })
    await app.state('c 1', 'awaiting-approval')
    await app.app.close()
    expect(await answerTo(client, 'a')).toMatchObject({
      type: 'error',
      code: 'SHUTTING_DOWN',
      location: '/calls/default/c%201'
    })
  })
})

describe('cancel frames (api.md §5)', () => {
  it('abort a call, as often as one likes, and tell its state', async () => {
    const { app, client } = await withSocket()
    client.send({ type: 'invoke', id: 'a', name: 'coop', callId: 'c1' })
    await until(() => app.trace.length === 1)
    client.send({ type: 'cancel', session: 'default', callId: 'c1' })
    expect(await answerTo(client, 'a')).toMatchObject({ error: { info: { code: 'ABORTED' }, effect: 'unknown' } })
    const report = (await app.report('c1')).body
    expect(await client.ask({ type: 'cancel', id: 'b', session: 'default', callId: 'c1' })).toEqual({
      type: 'call/state',
      id: 'b',
      ...report
    })
    expect(await client.ask({ type: 'cancel', id: 'd', session: 'default', callId: 'c2' })).toMatchObject({
      type: 'error',
      id: 'd',
      code: 'UNKNOWN_CALL'
    })
  })

  it('one sent right behind its invoke finds the call', async () => {
    const { client } = await withSocket()
    for (let round = 0; round < 10; round += 1) {
      const [id, callId, session] = [`i${round}`, 'c', `s${round}`]
      client.send({ type: 'invoke', id, name: 'coop', callId, session })
      client.send({ type: 'cancel', id: `x${round}`, session, callId })
      const result = await answerTo(client, id)
      expect(result).toMatchObject({ type: 'result', isError: true })
      expect(await answerTo(client, `x${round}`)).toMatchObject({ type: 'call/state', callId, session })
    }
  })

  it('an operator cancels what an agent runs, and an observer does not', async () => {
    const { app } = await withSocket()
    const call = app.post('/invoke', { name: 'coop', callId: 'c1' })
    await until(() => app.trace.length === 1)
    const observer = await EventClient.open(app.served, await app.served.tokenFor('observer'))
    const operator = await EventClient.open(app.served, await app.served.tokenFor('operator'))
    const frame = { type: 'cancel', id: 'x', session: 'default', callId: 'c1' }
    expect(await observer.ask(frame)).toMatchObject({ code: 'FORBIDDEN' })
    expect(await operator.ask(frame)).toMatchObject({ type: 'call/state' })
    expect((await call).body.error.info.code).toBe('ABORTED')
  })
})
