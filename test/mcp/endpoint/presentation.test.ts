import { expect, it } from 'vitest'
import { startApp } from '../../helpers/app.ts'
import { bareTool } from '../../helpers/bare-tool.ts'
import { connectMcp, lastMessage, openSession, postMcp } from '../../helpers/mcp-client.ts'
import { until } from '../../helpers/until.ts'

it('list_changed comes when what the scope shows has changed, and not for anything else', async () => {
  const app = await startApp()
  for (const scope of ['a', 'b']) await app.served.call(`/scopes/${scope}`, { method: 'PUT', json: {} })
  const a = await connectMcp(app.served, { scope: 'a' })
  const b = await connectMcp(app.served, { scope: 'b' })
  const names = async () => (await a.client.listTools()).tools.map(({ name }) => name)
  expect(await names()).toEqual((await names()).toSorted())
  await b.client.listTools()
  const changed = (times: number) => until(() => a.told.length === times)

  const scopeA = app.app.tools.child('a')
  const undo = scopeA.register(bareTool('only-a'))
  await changed(1)
  expect(await names()).toContain('only-a')
  await app.post('/scopes/a/restrictions', { deny: ['echo'] })
  await changed(2)
  expect(await names()).not.toContain('echo')
  // A burst is told once, at its end.
  undo()
  for (let n = 0; n < 20; n += 1) scopeA.register(bareTool(`burst-${n}`))
  await changed(3)
  expect(await names()).not.toContain('only-a')
  // Whoever has asked since knows.
  expect(b.told).toEqual([])
  app.app.tools.register(bareTool('everywhere'))
  await until(() => b.told.length === 1 && a.told.length === 4)
  // What is as before at the end of the burst is no change.
  scopeA.register(bareTool('brief'))()
  app.app.tools.register(bareTool('later'))
  await until(() => b.told.length === 2 && a.told.length === 5)
})

it('under code there is run_code alone, with the SDK in its description; both shows both', async () => {
  const app = await startApp({ 'codeRuntime.backend': 'worker-thread' })
  await app.served.call('/scopes/a', { method: 'PUT', json: { presentAs: 'code' } })
  const { client, told } = await connectMcp(app.served, { scope: 'a' })
  const { tools } = await client.listTools()
  expect(tools.map(({ name }) => name)).toEqual(['run_code'])
  const { body: prompt } = await app.get('/scopes/a/prompt')
  for (const { text } of prompt.sections) expect(tools[0]?.description).toContain(text)
  expect(tools[0]?.description).toContain('echo')
  const ran = await client.callTool({
    name: 'run_code',
    arguments: { code: "return (await tools.echo({ text: 'hi' })) + '!'", description: 'Echo' }
  })
  expect(ran.structuredContent).toMatchObject({ result: 'hi!' })
  expect(await client.callTool({ name: 'echo', arguments: { text: 'hi' } })).toMatchObject({
    isError: true,
    _meta: { code: 'UNKNOWN_TOOL' }
  })
  await app.served.call('/scopes/a/presentation', { method: 'PUT', json: { mode: 'both' } })
  await until(() => told.length === 1)
  const both = (await client.listTools()).tools.map(({ name }) => name)
  expect(both).toContain('echo')
  expect(both.at(-1)).toBe('run_code')
})

it('a mode that cannot be served is an error of the list, and the session lives', async () => {
  const app = await startApp({ 'presentation.mode': 'code' })
  const session = await openSession(app.served)
  const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
  const { error } = await lastMessage(postMcp(app.served, list, { session }))
  expect(error).toMatchObject({ data: { code: 'CODE_RUNTIME_MISSING' } })
  const ping = { jsonrpc: '2.0', id: 2, method: 'ping' }
  expect((await lastMessage(postMcp(app.served, ping, { session }))).result).toEqual({})
})
