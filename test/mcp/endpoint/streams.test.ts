import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { Streams } from '../../../server/mcp/endpoint/streams.ts'
import { until } from '../../helpers/until.ts'

/** A body that the test feeds. */
function source() {
  let controller!: ReadableStreamDefaultController<Uint8Array>
  const state = { isCancelled: false }
  const body = new ReadableStream<Uint8Array>({
    start: (given) => void (controller = given),
    cancel: () => void (state.isCancelled = true)
  })
  return {
    body,
    state,
    push: (size: number) => controller.enqueue(new Uint8Array(size)),
    end: () => controller.close()
  }
}

/** A real answer to a client that reads only when it is told to. */
async function answer(): Promise<{ response: ServerResponse; client: ReturnType<typeof connect> }> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  onTestFinished(() => {
    client.destroy()
    server.closeAllConnections()
    server.close()
  })
  client.on('error', () => undefined)
  client.pause()
  client.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  const [, response] = (await once(server, 'request')) as [unknown, ServerResponse]
  return { response, client }
}

it('counts what a client does not read, and cuts off a stream that stalls', async () => {
  const streams = new Streams({ highWaterBytes: 100_000, stallTimeoutMs: 50 })
  const { response } = await answer()
  const { body, push, state } = source()
  const sent = streams.send(body, response)
  expect([streams.size, streams.isBackedUp]).toEqual([1, false])
  for (let n = 0; n < 200; n += 1) push(100_000)
  await until(() => streams.isBackedUp)
  await sent
  expect(response.destroyed).toBe(true)
  await until(() => streams.size === 0)
  expect([streams.isBackedUp, state.isCancelled]).toEqual([false, true])
})

it('ends with its body, and with its client', async () => {
  const streams = new Streams({ highWaterBytes: 100_000, stallTimeoutMs: 60_000 })
  const [first, second] = [await answer(), await answer()]
  const [a, b] = [source(), source()]
  const sending = [streams.send(a.body, first.response), streams.send(b.body, second.response)]
  a.push(10)
  a.end()
  second.client.destroy()
  await Promise.all(sending)
  expect(first.response.writableEnded).toBe(true)
  expect(b.state.isCancelled).toBe(true)
  await until(() => streams.size === 0)
})
