import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, it } from 'vitest'
import { serveApp } from '../../helpers/served-app.ts'

const limits = {
  'http.requestTimeoutMs': '200',
  'http.headersTimeoutMs': '100',
  'http.connectionsCheckingIntervalMs': '50'
}

async function started() {
  let runs = 0
  const { app, port, admin } = await serveApp(limits)
  app.tools.register({
    name: 'count',
    description: 'Counts its calls.',
    parameters: { type: 'object' },
    output: { schema: {}, render: () => [] },
    execute: async () => (runs += 1)
  })
  const body = JSON.stringify({ name: 'count', arguments: {} })
  const head = `POST /invoke HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\nauthorization: Bearer ${admin}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n`
  const open = async (): Promise<Socket> => {
    const accepted = once(app.server, 'connection')
    const socket = connect(port, '127.0.0.1')
    await accepted
    return socket
  }
  return { open, head, body, runs: () => runs }
}

/** Holds the loop up for longer than a request may take. */
function block(): void {
  const end = performance.now() + 600
  while (performance.now() < end);
}

it('a request that lay there while the loop was busy did arrive, and is answered once', async () => {
  const { open, head, body, runs } = await started()
  const sockets = await Promise.all(Array.from({ length: 5 }, open))
  for (const socket of sockets) socket.write(head + body)
  const answers = sockets.map((socket) => text(socket))
  block()
  for (const answer of await Promise.all(answers)) expect(answer).toMatch(/^HTTP\/1\.1 200 [^]*"value":\d/)
  expect(runs()).toBe(5)
})

it('a request that is told it did not arrive never runs, whatever comes later', async () => {
  const { open, head, body, runs } = await started()
  const [headless, bodiless] = [await open(), await open()]
  headless.on('error', () => {})
  bodiless.on('error', () => {})
  headless.write(head.slice(0, 40))
  bodiless.write(head + body.slice(0, 5))
  const rest: [Socket, string][] = [
    [headless, head.slice(40) + body],
    [bodiless, body.slice(5)]
  ]
  for (const [socket, more] of rest) {
    const closed = once(socket, 'close')
    const [answer] = (await once(socket, 'data')) as [Buffer]
    expect(String(answer)).toMatch(/^HTTP\/1\.1 408 /)
    socket.write(more)
    await closed
  }
  expect(runs()).toBe(0)
})
