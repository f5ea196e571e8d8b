import { expect, it } from 'vitest'
import { startApp, type TestApp } from '../../helpers/app.ts'
import {
  connectMcp,
  initialize,
  lastMessage,
  mcpUrl,
  messagesOf,
  openSession,
  postMcp,
  toolCall
} from '../../helpers/mcp-client.ts'
import { until } from '../../helpers/until.ts'

const list = { jsonrpc: '2.0', id: 5, method: 'tools/list' }

const listen = ({ served }: TestApp, session: string, token = served.admin) =>
  fetch(mcpUrl(served), {
    headers: { authorization: `Bearer ${token}`, accept: 'text/event-stream', 'mcp-session-id': session }
  })

it('one session too many takes the place of the longest unused one, and is refused where all are in use', async () => {
  const app = await startApp({ 'mcpEndpoint.maxSessionsPerToken': '2', 'mcpEndpoint.maxSessions': '3' })
  const status = async (session: string) => (await postMcp(app.served, list, { session })).status
  const [first, second] = [await openSession(app.served), await openSession(app.served)]
  expect(await status(first)).toBe(200)
  const third = await openSession(app.served)
  expect([await status(first), await status(second), await status(third)]).toEqual([200, 404, 200])
  // A call that runs, and somebody who listens.
  const running = postMcp(app.served, toolCall(1, 'gate', { id: 'g' }), { session: first })
  await app.entered('g')
  const listening = await listen(app, third)
  expect((await listen(app, third)).status).toBe(409)
  const refused = await postMcp(app.served, initialize)
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1'])
  const token = await app.served.tokenFor('admin')
  const fourth = await openSession(app.served, { token })
  expect((await postMcp(app.served, initialize, { token: await app.served.tokenFor('admin') })).status).toBe(503)
  expect((await postMcp(app.served, list, { token, session: fourth })).status).toBe(200)
  app.release('g')
  expect((await lastMessage(running)).result.structuredContent).toEqual({ value: 'done-g' })
  await listening.body?.cancel()
  // An initialize request that is refused leaves nothing.
  expect((await postMcp(app.served, { ...initialize, id: null })).status).toBe(400)
  expect(app.app.mcpSessions.size).toBe(3)
})

it('a session that nobody uses ends; one that somebody listens to, or in which a call runs, does not', async () => {
  const app = await startApp()
  const sessions = [await openSession(app.served), await openSession(app.served), await openSession(app.served)]
  const [idle = '', heard = '', busy = ''] = sessions
  const { mcpSessions, scopes, tokens } = app.app
  const owner = tokens.verify(app.served.admin) ?? { tokenId: '' }
  const age = (id: string): void => void (mcpSessions.find(id, scopes.global, owner).usedAt = -Infinity)
  const stream = await listen(app, heard)
  const running = await postMcp(app.served, toolCall(1, 'gate', { id: 'g' }), { session: busy })
  await app.entered('g')
  sessions.forEach(age)
  await until(() => mcpSessions.size === 2)
  expect((await postMcp(app.served, list, { session: idle })).status).toBe(404)
  app.release('g')
  await running.text()
  age(busy)
  await until(() => mcpSessions.size === 1)
  await stream.body?.cancel()
  age(heard)
  await until(() => mcpSessions.size === 0)
})

it('S28 with its token go the sessions, what runs in them and what listens', async () => {
  const app = await startApp()
  const token = await app.served.tokenFor('agent')
  const { tokenId } = app.app.tokens.verify(token) ?? {}
  const session = await openSession(app.served, { token })
  const kept = await openSession(app.served)
  const stream = await listen(app, session, token)
  const running = await postMcp(app.served, toolCall(1, 'coop'), { token, session })
  await until(() => app.trace.length === 1)
  await app.served.call(`/tokens/${tokenId}`, { method: 'DELETE' })
  expect(messagesOf(await stream.text())).toEqual([])
  expect(messagesOf(await running.text())).toEqual([])
  expect((await postMcp(app.served, list, { session: kept })).status).toBe(200)
  await until(async () => (await app.log(session)).some((line) => line.startsWith('tool/result')))
})

it('the shutdown answers what runs, ends who listens and begins nothing', async () => {
  const app = await startApp({ 'drain.drainMs': '60000' })
  const { client, session } = await connectMcp(app.served)
  const call = client.callTool({ name: 'gate', arguments: { id: 'g' } })
  await app.entered('g')
  const other = await openSession(app.served)
  const heard = (await listen(app, other)).text()
  const closed = app.app.close()
  await until(() => app.app.shutdown.isDraining)
  expect(await heard).toBe('')
  const late = await fetch(mcpUrl(app.served), { method: 'POST' }).catch(() => undefined)
  expect([401, undefined]).toContain(late?.status)
  app.release('g')
  expect(await call).toMatchObject({ structuredContent: { value: 'done-g' } })
  await closed
  expect(app.app.mcpSessions.size).toBe(0)
  expect(session).toMatch(/^mcp-/)
})
