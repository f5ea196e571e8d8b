import type { LookupFunction } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { AddressGuard } from '../../../server/backends/web/address-guard.ts'
import { guardedAgent } from '../../../server/backends/web/guarded-agent.ts'
import { until } from '../../helpers/until.ts'
import { serveWeb } from '../../helpers/web-server.ts'

async function agentOf(guard: AddressGuard) {
  const agent = await guardedAgent(guard, { timeoutMs: 10_000 })
  onTestFinished(() => agent.destroy())
  return agent
}

const get = { method: 'GET', path: '/' } as const

it('S17 refuses an address in a URL that nobody has checked before', async () => {
  const server = await serveWeb((_request, response) => void response.end('secret'))
  const agent = await agentOf(new AddressGuard({ allow: ['127.0.0.2'], ports: [] }))
  for (const host of ['127.0.0.1', '[::ffff:127.0.0.1]', '[::1]']) {
    const asking = agent.request({ origin: `http://${host}:${server.port}`, ...get })
    await expect(asking).rejects.toMatchObject({ code: 'WEB_BLOCKED_URL' })
  }
  expect(server.asked).toEqual([])
})

it('S17 says nothing to a peer that is another than was looked up', async () => {
  const server = await serveWeb((_request, response) => void response.end('secret'))
  const lookup: LookupFunction = (_name, _options, callback) => callback(null, [{ address: '127.0.0.1', family: 4 }])
  const guard = Object.assign(new AddressGuard({ allow: [], ports: [] }), { lookup })
  const agent = await agentOf(guard)
  const asking = agent.request({ origin: `http://name.test:${server.port}`, ...get })
  await expect(asking).rejects.toMatchObject({ code: 'WEB_BLOCKED_URL' })
  await until(() => server.sockets.size === 0)
  expect(server.asked).toEqual([])
})
