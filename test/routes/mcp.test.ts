import { EmptyResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { expect, it } from 'vitest'
import { bareTool } from '../helpers/bare-tool.ts'
import { startApp } from '../helpers/app.ts'
import { connectMcp, initialize, lastMessage, mcpUrl, openSession, postMcp, toolCall } from '../helpers/mcp-client.ts'
import { until } from '../helpers/until.ts'

it('the official client lists and calls: a session of its own, failures as results, and what MCP has no word for in _meta', async () => {
  const app = await startApp()
  const { client, session } = await connectMcp(app.served)
  app.app.tools.register(
    bareTool('typed', {
      idempotent: true,
      output: { schema: { type: 'object', properties: { n: { type: 'integer' } } }, render: () => [] },
      execute: () => ({ n: 1 })
    })
  )
  const { tools } = await client.listTools()
  const tool = (name: string) => tools.find((each) => each.name === name)
  expect(tool('echo')).toMatchObject({
    inputSchema: { type: 'object', properties: { text: { type: 'string' } } },
    outputSchema: { type: 'object', properties: { value: { type: 'string' } }, required: ['value'] }
  })
  expect(tool('typed')).toMatchObject({
    outputSchema: { type: 'object', properties: { n: { type: 'integer' } } },
    annotations: { idempotentHint: true }
  })
  expect(tool('run_code')).toBeUndefined()
  expect(client.getServerVersion()).toEqual({ name: 'toolwright', version: expect.stringMatching(/^\d+\.\d+/) })

  const echoed = await client.callTool({ name: 'echo', arguments: { text: 'hi' } })
  expect(echoed).toEqual({
    content: [{ type: 'text', text: 'hi' }],
    structuredContent: { value: 'hi' },
    _meta: { callId: expect.any(String) }
  })
  const { callId } = echoed['_meta'] as { callId: string }
  expect((await app.report(callId, session)).body).toMatchObject({ state: 'done', result: { value: 'hi' } })
  expect((await client.callTool({ name: 'typed' }))['structuredContent']).toEqual({ n: 1 })

  app.boom = (exec) => {
    exec.deferContext({ id: 'c', role: 'user', content: [], source: { kind: 'plugin', plugin: 'p' } })
    throw new Error('exploded')
  }
  expect(await client.callTool({ name: 'boom' })).toMatchObject({
    isError: true,
    content: [{ type: 'text', text: expect.stringContaining('exploded') }],
    _meta: { effect: 'unknown', retryable: false, additionalContexts: [{ id: 'c' }] }
  })
  for (const [name, code] of [
    ['nobody', 'UNKNOWN_TOOL'],
    ['need', 'INVALID_ARGS']
  ] as const) {
    const failed = await client.callTool({ name, arguments: {} })
    expect(failed).toMatchObject({ isError: true, _meta: { effect: 'none', code } })
    expect(failed).not.toHaveProperty('structuredContent')
  }
  // The whole pipeline, in the log of a session of this scope.
  const log = await app.log(session)
  expect(log.filter((line) => line.startsWith('tool/result'))).toHaveLength(5)
  await expect(client.request({ method: 'nothing/here' }, EmptyResultSchema)).rejects.toThrow('Method not found')
})

it('arguments are as lossless as those of POST /invoke', async () => {
  const app = await startApp()
  const session = await openSession(app.served)
  app.boom = ({ arguments: args }) => args
  const call = (text: string) =>
    lastMessage(postMcp(app.served, JSON.stringify(toolCall(1, 'boom', 0)).replace(':0}', `:${text}}`), { session }))
  const text = '{"__proto__":{"a":1},"constructor":{"prototype":{}},"9":1,"1":2}'
  expect(JSON.stringify((await call(text)).result.structuredContent.value)).toBe(JSON.stringify(JSON.parse(text)))
  expect((await call('{"a":[9007199254740993]}')).result).toMatchObject({
    isError: true,
    content: [{ text: expect.stringContaining('a[0]') }],
    _meta: { code: 'INVALID_ARGS' }
  })
  expect((await call('{"a":-0}')).result.isError).toBe(true)
  expect((await call('{"a":1e400}')).result.isError).toBe(true)
  const stored = (await app.events(session))
    .filter(({ type }) => type === 'tool/call')
    .map(({ data }) => data.arguments)
  expect(stored).toEqual([text, '{"a":[9007199254740993]}', '{"a":-0}', '{"a":1e400}'])
  expect(Object.keys(Object.prototype)).toEqual([])
})

it('what is no proper message is refused, and the session goes on', async () => {
  const app = await startApp({ 'http.bodyLimitBytes': '100000' })
  const session = await openSession(app.served)
  const list = { jsonrpc: '2.0', id: 5, method: 'tools/list' }
  const status = async (message: unknown, options: Parameters<typeof postMcp>[2] = { session }) => {
    const answer = await postMcp(app.served, message, options)
    return { status: answer.status, text: await answer.text() }
  }
  const deep = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":${'['.repeat(300)}${']'.repeat(300)}}}`
  const cases: [unknown, number, Parameters<typeof postMcp>[2]?][] = [
    [[list], 400],
    [[], 400],
    ['{"jsonrpc":"2.0",', 400],
    ['', 400],
    ['null', 400],
    ['"x"', 400],
    [{ ...list, id: null }, 400],
    [{ ...list, id: 1.5 }, 400],
    [{ ...list, id: { a: 1 } }, 400],
    [{ ...list, jsonrpc: '1.0' }, 400],
    [{ ...list, method: 7 }, 400],
    [{ ...list, more: 1 }, 400],
    [deep, 400],
    ['{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"__proto__":{}}}', 400],
    [{ ...list, params: { filler: 'x'.repeat(100_000) } }, 413],
    [initialize, 400],
    [list, 400, {}],
    [list, 404, { session: 'mcp-nothing' }],
    [list, 404, { session: 'x'.repeat(5_000) }],
    [list, 406, { session, headers: { accept: 'application/json' } }],
    [list, 406, { session, headers: { accept: 'text/event-stream' } }],
    [list, 415, { session, headers: { 'content-type': 'text/plain' } }],
    [list, 400, { session, headers: { 'mcp-protocol-version': '1999-01-01' } }],
    [initialize, 406, { headers: { accept: '*/*' } }],
    [list, 404, { session, scope: 'nowhere' }],
    [list, 401, { session, token: 'nobody' }]
  ]
  for (const [message, wanted, options] of cases) {
    const { status: got, text } = await status(message, options)
    expect(got, `${JSON.stringify(message).slice(0, 80)}: ${text}`).toBe(wanted)
  }
  // Refused within the protocol.
  for (const params of [{}, { name: 7 }, { name: 'echo', arguments: [] }, { name: 'echo', arguments: 'x' }]) {
    const answer = await lastMessage(postMcp(app.served, { ...list, method: 'tools/call', params }, { session }))
    expect(answer.error, JSON.stringify(params)).toMatchObject({ code: -32602 })
  }
  const half = { ...list, method: 'tools/call', params: { name: '\ud800' } }
  expect((await lastMessage(postMcp(app.served, half, { session }))).error.data).toEqual({ code: 'BAD_REQUEST' })
  // Ids are the client's: whatever it says comes back.
  for (const id of ['__proto__', 0, -1, Number.MAX_SAFE_INTEGER, 'é\n"']) {
    expect((await lastMessage(postMcp(app.served, { ...list, id }, { session }))).id).toBe(id)
  }
  // Answers to what was never asked are taken and forgotten.
  expect((await status({ jsonrpc: '2.0', id: 99, result: {} })).status).toBe(202)
  expect(app.app.mcpSessions.size).toBe(1)
})

it('a session is its token’s and its scope’s alone, and DELETE ends it with what runs in it', async () => {
  const app = await startApp()
  await app.served.call('/scopes/a', { method: 'PUT', json: {} })
  await app.served.call('/scopes/b', { method: 'PUT', json: {} })
  const [token, other] = [await app.served.tokenFor('agent', 'a'), await app.served.tokenFor('agent', 'a')]
  const session = await openSession(app.served, { scope: 'a', token })
  const list = { jsonrpc: '2.0', id: 5, method: 'tools/list' }
  const without = (text: string) => text.replace(/"requestId":"[^"]*"/, '')
  const refusal = async (options: Parameters<typeof postMcp>[2], method = 'POST') => {
    const answer =
      method === 'POST'
        ? await postMcp(app.served, list, options)
        : await fetch(mcpUrl(app.served, options?.scope), {
            method,
            headers: {
              authorization: `Bearer ${options?.token}`,
              accept: 'text/event-stream',
              'mcp-session-id': options?.session ?? ''
            }
          })
    return { status: answer.status, text: without(await answer.text()) }
  }
  const unknown = await refusal({ scope: 'a', token, session: 'mcp-unknown' })
  expect(unknown).toMatchObject({ status: 404, text: expect.stringContaining('UNKNOWN_SESSION') })
  for (const method of ['POST', 'GET', 'DELETE']) {
    expect(await refusal({ scope: 'a', token: other, session }, method)).toEqual(unknown)
    expect(await refusal({ scope: 'a', token: app.served.admin, session }, method)).toEqual(unknown)
  }
  const admins = await openSession(app.served, { scope: 'a' })
  expect(await refusal({ scope: 'b', token: app.served.admin, session: admins })).toEqual(unknown)
  expect((await refusal({ scope: 'b', token, session })).text).toContain('UNKNOWN_SCOPE')
  const observer = await app.served.tokenFor('observer', 'a')
  expect((await refusal({ scope: 'a', token: observer, session })).status).toBe(403)

  const running = postMcp(app.served, toolCall(1, 'coop'), { scope: 'a', token, session })
  await until(() => app.trace.some((line) => line.startsWith('body:')))
  expect((await refusal({ scope: 'a', token, session }, 'DELETE')).status).toBe(200)
  await (await running).text()
  await until(async () => (await app.log(session)).some((line) => line.startsWith('tool/result')))
  expect(await refusal({ scope: 'a', token, session })).toEqual(unknown)
  expect(app.app.mcpSessions.size).toBe(1)
})

it('the session ends with its scope, and the call in it is answered', async () => {
  const app = await startApp()
  await app.served.call('/scopes/a', { method: 'PUT', json: {} })
  const { client, session } = await connectMcp(app.served, { scope: 'a' })
  const call = client.callTool({ name: 'coop' })
  await until(() => app.trace.length > 0)
  expect((await app.served.call('/scopes/a', { method: 'DELETE' })).status).toBeLessThan(300)
  expect(await call).toMatchObject({ isError: true, _meta: { code: 'ABORTED' } })
  await until(() => app.app.mcpSessions.size === 0)
  // Another scope under the same name is another scope.
  await app.served.call('/scopes/a', { method: 'PUT', json: {} })
  expect((await postMcp(app.served, toolCall(1, 'echo'), { scope: 'a', session })).status).toBe(404)
})

it('S9 200 sessions at a time, and POST /invoke beside them: each gets its own answers', async () => {
  // The clients are in this process too, and delay its loop.
  const app = await startApp({ 'calls.maxConcurrentPerScope': '256', 'shedding.maxLoopDelayMs': '600000' })
  app.app.tools.register({
    name: 'nonce',
    description: 'Gives its nonce back, later.',
    parameters: { type: 'object' },
    output: { schema: {}, render: () => [] },
    isConcurrencySafe: () => true,
    execute: async (args) => {
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 20))
      return args
    }
  })
  const nonces = Array.from({ length: 200 }, (_, index) => `nonce-${index}-${Math.random()}`)
  const answers = await Promise.all(
    nonces.map(async (nonce, index) => {
      const session = await openSession(app.served)
      const answer = await lastMessage(postMcp(app.served, toolCall(index, 'nonce', { nonce }), { session }))
      const plain = await app.invoke({ name: 'nonce', arguments: { nonce: `plain-${nonce}` }, session: `s-${index}` })
      expect(plain.value).toEqual({ nonce: `plain-${nonce}` })
      expect(answer.id).toBe(index)
      // The log of each session is its own too; some stand for all.
      const calls = index % 20 === 0 ? (await app.events(session)).filter(({ type }) => type === 'tool/call') : []
      for (const { data } of calls) expect(JSON.parse(data.arguments)).toEqual({ nonce })
      return answer.result.structuredContent.value.nonce
    })
  )
  expect(answers).toEqual(nonces)
  expect(app.app.mcpSessions.size).toBe(200)
}, 120_000)
