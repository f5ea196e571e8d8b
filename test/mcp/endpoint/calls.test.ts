import { expect, it } from 'vitest'
import { startApp, type TestApp } from '../../helpers/app.ts'
import { bareTool } from '../../helpers/bare-tool.ts'
import {
  connectMcp,
  lastMessage,
  mcpUrl,
  messagesOf,
  openSession,
  postMcp,
  toolCall
} from '../../helpers/mcp-client.ts'
import { until } from '../../helpers/until.ts'

/** A tool that says three things, waiting after the first until the test lets it go on. */
function talker(app: TestApp): () => void {
  let goOn = (): void => undefined
  const told = new Promise<void>((resolve) => (goOn = resolve))
  app.app.tools.register(
    bareTool('talk', {
      isConcurrencySafe: () => true,
      execute: async (_args, exec) => {
        exec.progress('one')
        await told
        exec.progress('two')
        exec.progress('three')
        return 'said'
      }
    })
  )
  return goOn
}

it('progress goes to who asked for it, log messages to who set a level, each to the caller of the call alone', async () => {
  const app = await startApp()
  const goOn = talker(app)
  const [asking, logging, silent] = [
    await connectMcp(app.served),
    await connectMcp(app.served),
    await connectMcp(app.served)
  ]
  await logging.client.setLoggingLevel('debug')
  await silent.client.setLoggingLevel('warning')
  const progress: unknown[] = []
  const call = (client: typeof asking, options = {}) => client.client.callTool({ name: 'talk' }, undefined, options)
  const calls = [call(asking, { onprogress: (at: unknown) => void progress.push(at) }), call(logging), call(silent)]
  await until(() => progress.length === 1 && logging.told.length === 1)
  goOn()
  for (const { structuredContent } of await Promise.all(calls)) expect(structuredContent).toEqual({ value: 'said' })
  expect(progress).toEqual([
    { progress: 1, message: 'one' },
    { progress: 2, message: 'two' },
    { progress: 3, message: 'three' }
  ])
  expect(logging.told).toEqual(['one', 'two', 'three'])
  expect([...asking.told, ...silent.told]).toEqual([])
})

it('a cancelled call is aborted, also request 0, and its stream ends', async () => {
  const app = await startApp()
  const { client, session } = await connectMcp(app.served)
  const controller = new AbortController()
  const cancelled = client.callTool({ name: 'coop' }, undefined, { signal: controller.signal })
  await until(() => app.trace.length === 1)
  controller.abort()
  await expect(cancelled).rejects.toThrow()
  const resultOf = async (of: string) =>
    (await app.events(of)).find(({ type }) => type === 'tool/result')?.data.error?.code as unknown
  await until(async () => (await resultOf(session)) === 'ABORTED')
  expect(await client.ping()).toEqual({})

  const raw = await openSession(app.served)
  const running = postMcp(app.served, toolCall(0, 'coop'), { session: raw })
  await until(() => app.trace.length === 2)
  // Of another session, and of a request that is none.
  for (const [of, requestId] of [
    [session, 0],
    [raw, 77],
    [raw, '0']
  ] as const) {
    const cancel = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } }
    expect((await postMcp(app.served, cancel, { session: of })).status).toBe(202)
  }
  expect(await resultOf(raw)).toBeUndefined()
  const cancel = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 0, reason: 'enough' } }
  expect((await postMcp(app.served, cancel, { session: raw })).status).toBe(202)
  expect((await lastMessage(running)).result._meta).toMatchObject({ code: 'ABORTED' })
  // One that is cancelled before it began leaves its pair in the log.
  await until(async () => (await resultOf(raw)) === 'ABORTED')
})

it('a connection that breaks cancels nothing: the answer comes again after Last-Event-ID', async () => {
  const app = await startApp()
  const goOn = talker(app)
  const session = await openSession(app.served)
  const broken = new AbortController()
  const call = { ...toolCall(4, 'talk'), params: { name: 'talk', _meta: { progressToken: 'p' } } }
  const first = await postMcp(app.served, call, { session, signal: broken.signal })
  const reader = first.body?.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  while (!text.includes('"one"')) text += (await reader?.read())?.value ?? ''
  const seen = /id: (\d+)\ndata: \{/.exec(text)?.[1] ?? ''
  const listen = (lastEventId: string) =>
    fetch(mcpUrl(app.served), {
      headers: {
        authorization: `Bearer ${app.served.admin}`,
        accept: 'text/event-stream',
        'mcp-session-id': session,
        'last-event-id': lastEventId
      }
    })
  // While it runs one listens on, also before the server notices that the other connection is gone.
  const resumed = await listen(seen)
  expect(resumed.status).toBe(200)
  expect((await reader?.read())?.done).toBe(true)
  broken.abort()
  goOn()
  const rest = messagesOf(await resumed.text())
  expect(rest.map(({ message }) => message.params?.message ?? message.result.structuredContent.value)).toEqual([
    'two',
    'three',
    'said'
  ])
  const again = await listen(seen)
  expect(messagesOf(await again.text())).toEqual(rest)
  expect((await listen(rest.at(-1)?.id ?? '')).status).toBe(204)
  for (const nonsense of ['77777', '-1', '__proto__', 'x'.repeat(2_000)]) {
    expect((await listen(nonsense)).status, nonsense).toBe(400)
  }
})

it('a value that is no object, a block that MCP does not know, and one that is too deep', async () => {
  const app = await startApp()
  const { client } = await connectMcp(app.served)
  let deep: unknown = 'bottom'
  for (let level = 0; level < 5_000; level += 1) deep = [deep]
  const image = { type: 'image', data: 'aGk=', mimeType: 'image/png' }
  const values: [unknown, unknown][] = [
    [null, { structuredContent: { value: null } }],
    [{ n: 1 }, { structuredContent: { value: { n: 1 } } }],
    [deep, { isError: true, _meta: { effect: 'completed' } }]
  ]
  for (const [value, wanted] of values) {
    app.boom = () => value
    expect(await client.callTool({ name: 'boom' })).toMatchObject(wanted as object)
  }
  app.app.tools.register(
    bareTool('blocks', {
      output: {
        schema: { type: 'string' },
        render: () => [
          image,
          { type: 'reasoning', text: 'hm' },
          { type: 'image', url: 'x' },
          { type: 'text', text: 't' }
        ]
      }
    })
  )
  expect((await client.callTool({ name: 'blocks' })).content).toEqual([
    image,
    { type: 'text', text: '{"type":"reasoning","text":"hm"}' },
    { type: 'text', text: '{"type":"image","url":"x"}' },
    { type: 'text', text: 't' }
  ])
})

it('a request under the id of one that runs is refused; each gets its own answer, and no stream stays open', async () => {
  const app = await startApp()
  const goOn = talker(app)
  const session = await openSession(app.served)
  const first = postMcp(app.served, toolCall(5, 'talk'), { session })
  await first
  for (const message of [toolCall(5, 'echo'), { jsonrpc: '2.0', id: 5, method: 'ping' }]) {
    const refused = await postMcp(app.served, message, { session })
    expect([refused.status, await refused.json()]).toMatchObject([400, { error: { code: -32_600 }, id: null }])
  }
  const text = { ...toolCall(5, 'echo', { n: 'text' }), id: '5' }
  expect((await lastMessage(postMcp(app.served, text, { session }))).id).toBe('5')
  goOn()
  expect((await lastMessage(first)).result.structuredContent).toEqual({ value: 'said' })
  // It is free again, also after one that the transport did not take.
  const refused = await postMcp(app.served, toolCall(5, 'echo'), { session, headers: { accept: 'text/plain' } })
  expect(refused.status).toBe(406)
  expect((await lastMessage(postMcp(app.served, toolCall(5, 'echo'), { session }))).id).toBe(5)
})

it('a task that is asked for is passed over, and a level that is none is an error of the parameters', async () => {
  const app = await startApp()
  const session = await openSession(app.served)
  const call = { ...toolCall(1, 'echo'), params: { name: 'echo', arguments: {}, task: { ttl: 1_000 } } }
  const { result } = await lastMessage(postMcp(app.served, call, { session }))
  expect(result._meta.callId).toEqual(expect.any(String))
  for (const params of [{ level: 'loud' }, { level: 1 }, undefined]) {
    const message = { jsonrpc: '2.0', id: 2, method: 'logging/setLevel', ...(params && { params }) }
    expect((await lastMessage(postMcp(app.served, message, { session }))).error.code).toBe(-32_602)
  }
})
