import { randomBytes } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { once } from 'node:events'
import { describe, expect, it, onTestFinished } from 'vitest'
import { sendRaw, statusOf, upgradeRequest } from '../helpers/raw-http.ts'
import { EventClient, serveApp, type ServedApp } from '../helpers/served-app.ts'
import { until } from '../helpers/until.ts'

/** One frame as a client sends it, masked. */
function frame(opcode: number, payload: Buffer, isFinal = true): Buffer {
  const mask = randomBytes(4)
  const head = [(isFinal ? 0x80 : 0) | opcode, 0x80 | (payload.length < 126 ? payload.length : 127)]
  const length = Buffer.alloc(payload.length < 126 ? 0 : 8)
  if (length.length > 0) length.writeBigUInt64BE(BigInt(payload.length))
  return Buffer.concat([Buffer.from(head), length, mask, payload.map((byte, at) => byte ^ (mask[at % 4] as number))])
}

/** A socket that was upgraded, with what the server sent since and whether it is closed. */
async function upgraded({
  port,
  admin
}: ServedApp): Promise<{ socket: Socket; received: () => Buffer; isClosed: () => boolean }> {
  const socket = connect(port, '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  const chunks: Buffer[] = []
  let isClosed = false
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  socket.on('error', () => undefined)
  socket.on('close', () => (isClosed = true))
  await once(socket, 'connect')
  const headers = {
    Host: `127.0.0.1:${port}`,
    Authorization: `Bearer ${admin}`,
    'Sec-WebSocket-Protocol': 'toolwright.v1'
  }
  socket.write(upgradeRequest('/events', headers))
  await until(() => Buffer.concat(chunks).includes('\r\n\r\n'))
  chunks.length = 0
  return { socket, received: () => Buffer.concat(chunks), isClosed: () => isClosed }
}

const closeCode = (bytes: Buffer): number => bytes.readUInt16BE(bytes.indexOf(Buffer.from([0x88])) + 2)

async function serves(served: ServedApp): Promise<void> {
  const answer = await served.call('/invoke', { json: { name: 'todo_write', arguments: { todos: [] } } })
  expect(((await answer.json()) as { isError: boolean }).isError).toBe(false)
}

describe('S19 slow clients (reliability.md §1.9)', () => {
  it('S19 200 sockets that drip their headers and bodies are closed by the deadlines, and others are served meanwhile', async () => {
    const served = await serveApp({
      'http.headersTimeoutMs': '1500',
      'http.requestTimeoutMs': '1500',
      'http.connectionsCheckingIntervalMs': '100'
    })
    const head = `POST /invoke HTTP/1.1\r\nHost: 127.0.0.1:${served.port}\r\nAuthorization: Bearer ${served.admin}\r\n`
    const body = `${head}Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n{"name":"`
    const answers: string[] = []
    const sockets = Array.from({ length: 200 }, (_, index) => {
      const socket = connect(served.port, '127.0.0.1')
      let answer = ''
      // Some never read, and so never hear that they are to close.
      if (index % 5 !== 0) socket.on('data', (chunk: Buffer) => (answer += chunk.toString('latin1')))
      socket.on('error', () => undefined)
      socket.on('close', () => answers.push(answer))
      socket.write(index % 2 === 0 ? head : body)
      return socket
    })
    onTestFinished(() => sockets.forEach((socket) => socket.destroy()))
    const dripping = setInterval(() => {
      for (const socket of sockets) if (socket.writable) socket.write('x')
    }, 50)
    onTestFinished(() => clearInterval(dripping))
    let rounds = 0
    while (answers.length < 200) {
      await serves(served)
      rounds += 1
    }
    expect(rounds).toBeGreaterThan(1)
    // A body that does not come is answered or cut; nothing of it was a call.
    expect(answers.filter((answer) => answer !== '' && ![400, 408].includes(statusOf(answer)))).toEqual([])
    await serves(served)
  })
})

describe('S20 floods of frames (reliability.md §1.9)', () => {
  it('S20 a message of too many fragments, frames after the close, pings without end, bits that mean nothing', async () => {
    const served = await serveApp({ 'ws.maxFragments': '64' })
    const vectors: [string, Buffer, number][] = [
      [
        'fragments',
        Buffer.concat([
          frame(1, Buffer.from('"'), false),
          ...Array.from({ length: 200 }, () => frame(0, Buffer.from('x'), false))
        ]),
        1008
      ],
      ['a fragment that begins nothing', frame(0, Buffer.from('x')), 1002],
      [
        'a message within a message',
        Buffer.concat([frame(1, Buffer.from('x'), false), frame(1, Buffer.from('y'))]),
        1002
      ],
      ['a reserved bit', Buffer.from([0xc1, 0x80, 0, 0, 0, 0]), 1002],
      ['an opcode that is none', Buffer.from([0x83, 0x80, 0, 0, 0, 0]), 1002],
      ['no mask', Buffer.from([0x81, 0x01, 0x78]), 1002],
      ['a fragmented ping', Buffer.from([0x09, 0x80, 0, 0, 0, 0]), 1002],
      ['a ping of 126 bytes', frame(9, Buffer.alloc(126)), 1002],
      ['text that is not UTF-8', frame(1, Buffer.from([0xff, 0xfe])), 1007],
      ['a close code that is none', frame(8, Buffer.from([0x03, 0xe6])), 1002],
      ['a close of one byte', frame(8, Buffer.from([0x03])), 1002],
      ['a length of 2^63', Buffer.from([0x81, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), 1009],
      ['too large', frame(1, Buffer.alloc(1024 * 1024 + 1, 0x78)), 1009]
    ]
    for (const [what, bytes, code] of vectors) {
      const { socket, received, isClosed } = await upgraded(served)
      socket.write(bytes)
      await until(isClosed)
      expect([what, closeCode(received())]).toEqual([what, code])
    }
    await serves(served)
  })

  it('S20 frames of 100 KB after the refusal of one that was too large are not read', async () => {
    const served = await serveApp()
    const { socket, received, isClosed } = await upgraded(served)
    const large = frame(1, Buffer.alloc(100 * 1024, 0x78))
    socket.write(frame(1, Buffer.alloc(1024 * 1024 + 1, 0x78)))
    for (let count = 0; count < 200 && socket.writable; count += 1) socket.write(large)
    await until(isClosed)
    expect(closeCode(received())).toBe(1009)
    await serves(served)
  })

  it('S20 20,000 pings are answered or not, and leave nothing behind', async () => {
    const served = await serveApp()
    const { socket } = await upgraded(served)
    const ping = frame(9, Buffer.alloc(100))
    socket.write(Buffer.concat(Array.from({ length: 20_000 }, () => ping)))
    const client = await EventClient.open(served)
    expect((await client.ask({ type: 'subscribe', id: 'a' })).type).toBe('subscribed')
    await serves(served)
    socket.destroy()
  })

  it('S20 1,000 upgrades without a token get 401, and nothing stays open', async () => {
    const served = await serveApp()
    const request = upgradeRequest('/events', { Host: `127.0.0.1:${served.port}` })
    for (let round = 0; round < 10; round += 1) {
      const answers = await Promise.all(Array.from({ length: 100 }, () => sendRaw(served.port, request)))
      expect(new Set(answers.map(statusOf))).toEqual(new Set([401]))
    }
    const open = await new Promise<number>((resolve) => served.app.server.getConnections((_, count) => resolve(count)))
    expect(open).toBeLessThan(10)
  })
})
