import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { HomeApp } from '../../helpers/home-app.ts'
import { until } from '../../helpers/until.ts'

const long = { name: 'bash', arguments: { command: 'seq 1 500', description: 'Counts' } }

/** A server with one session that has spilled a result. */
async function withSpilled(
  settings: Record<string, string> = {}
): Promise<{ server: HomeApp; spilled: () => string[] }> {
  const server = await HomeApp.start({ 'spill.maxInlineBytes': '500', 'store.ballastBytes': '0', ...settings })
  const directory = join(server.home, 'spill')
  const spilled = () => (existsSync(directory) ? readdirSync(directory) : [])
  expect((await server.ask('POST', '/invoke', { ...long, callId: 'c', session: 's' })).body.isError).toBe(false)
  expect(spilled()).toHaveLength(1)
  return { server, spilled }
}

it('reliability.md §2.5: what is too old goes, with what was spilled of it, and its calls are known no more', async () => {
  const { server, spilled } = await withSpilled({ 'store.retentionMs': '1' })
  await server.restart()
  await until(() => spilled().length === 0)
  const { body } = await server.ask('GET', '/sessions/s/events?after=-1')
  expect(body).toMatchObject({ events: [] })
  expect((await server.ask('GET', '/calls/s/c')).status).toBe(404)
  const again = await server.ask('POST', '/invoke', { ...long, callId: 'c', session: 's' })
  expect(again.body).toMatchObject({ isError: false })
  expect(again.body.callSeq).toBeGreaterThan(body.head)
  expect(again.body.replayed).toBeUndefined()
})

it('a deleted session takes along what was spilled of it', async () => {
  const { server, spilled } = await withSpilled()
  expect((await server.ask('DELETE', '/sessions/s')).status).toBe(204)
  await until(() => spilled().length === 0)
})

it('with its defaults it deletes nothing that is fresh, and 0 keeps everything', async () => {
  const { server, spilled } = await withSpilled({ 'store.retentionMs': '0', 'store.retentionBytes': '0' })
  await server.restart()
  expect((await server.ask('GET', '/calls/s/c')).body.state).toBe('done')
  expect(spilled()).toHaveLength(1)
})
