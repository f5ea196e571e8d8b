import { once } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import { WebSocket } from 'ws'
import type { Random } from '../crash/random.ts'
import { type ServerProcess, token, Wrong } from '../crash/server-process.ts'

type Fault = (server: ServerProcess, random: Random, count: number) => Promise<void>

/** What clients do that is no use to anybody. Each leaves nothing behind in the server. */
export const faults: readonly Fault[] = [
  callerLeaves,
  garbage,
  watcherVanishes,
  watcherStalls,
  scopeComesAndGoes,
  tokenComesAndGoes
]

async function callerLeaves(server: ServerProcess, random: Random): Promise<void> {
  const json = { name: 'bash', arguments: { command: 'sleep 5', description: 'Is left' } }
  const signal = AbortSignal.timeout(random.between(1, 60))
  await server.request('POST', '/invoke', json, { signal }).catch(() => undefined)
}

async function garbage(server: ServerProcess, random: Random): Promise<void> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const bodies = [
    '{',
    '[]',
    '{"name":1}',
    '{"name":"note","arguments":{"__proto__":{"x":1}}}',
    '['.repeat(5_000),
    '{"name":"none"}',
    '\u0000'
  ]
  const init = random.pick<RequestInit>([
    { method: 'POST', headers, body: random.pick(bodies) },
    { method: 'POST', headers: { ...headers, authorization: 'Bearer x' }, body: '{}' },
    { method: 'POST', headers: { ...headers, 'content-type': 'text/plain' }, body: 'x' },
    { method: 'DELETE', headers: { authorization: headers.authorization } }
  ])
  const { status } = await fetch(`${server.url}/invoke`, init)
  if (status >= 500) throw new Wrong(`garbage was answered with ${status}`)
}

async function open(server: ServerProcess): Promise<WebSocket> {
  const socket = new WebSocket(`${server.url.replace('http', 'ws')}/events`, 'toolwright.v1', {
    headers: { authorization: `Bearer ${token}` }
  })
  socket.on('error', () => undefined)
  await once(socket, 'open')
  return socket
}

async function watcherVanishes(server: ServerProcess, random: Random): Promise<void> {
  const socket = await open(server)
  socket.send(JSON.stringify({ type: 'subscribe', id: 'a', after: -1 }))
  await wait(random.between(0, 100))
  socket.terminate()
}

async function watcherStalls(server: ServerProcess, random: Random): Promise<void> {
  const socket = await open(server)
  socket.send(JSON.stringify({ type: 'subscribe', id: 'a', after: -1 }))
  socket.pause()
  await wait(random.between(200, 1_000))
  socket.resume()
  socket.close()
}

async function scopeComesAndGoes(server: ServerProcess, random: Random, count: number): Promise<void> {
  const scope = `scope-${count}`
  await server.request('PUT', `/scopes/${scope}`, {})
  const json = { scope, name: 'note', arguments: { text: 'x', ms: random.between(0, 50) } }
  const answered = server.request('POST', '/invoke', json)
  if (random.next() < 0.5) await answered
  await server.request('DELETE', `/scopes/${scope}`)
  await answered
}

async function tokenComesAndGoes(server: ServerProcess): Promise<void> {
  const { body } = await server.request('POST', '/tokens', { role: 'observer' })
  const socket = new WebSocket(`${server.url.replace('http', 'ws')}/events`, 'toolwright.v1', {
    headers: { authorization: `Bearer ${body.token}` }
  })
  await once(socket, 'open')
  const closed = once(socket, 'close')
  await server.request('DELETE', `/tokens/${body.id}`)
  const [code] = await closed
  if (code !== 4403) throw new Wrong(`the socket of a revoked token was closed with ${code}`)
}
