import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { encodeFrame, joinFrames } from '../../../plugins/engine/frame-bytes.ts'

/** What a client of `ws` makes of the bytes. */
async function received(bytes: Buffer): Promise<string[]> {
  const http = createServer()
  const server = new WebSocketServer({ server: http })
  server.on('connection', (socket, { socket: raw }) => {
    raw.write(bytes)
    socket.close(1000)
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void http.close())
  const texts: string[] = []
  const client = new WebSocket(`ws://127.0.0.1:${(http.address() as AddressInfo).port}`)
  client.on('message', (data: Buffer) => texts.push(data.toString()))
  expect(await new Promise((resolve) => client.on('close', resolve))).toBe(1000)
  return texts
}

it('frames of every length are read as they were written, one after the other', async () => {
  const texts = ['', 'a', 'é'.repeat(62), 'x'.repeat(125), 'x'.repeat(126), 'é'.repeat(32_767), 'x'.repeat(65_535)]
  texts.push('x'.repeat(65_536), '𝄞'.repeat(300_000), '', 'last')
  expect(await received(joinFrames(texts.map(encodeFrame)))).toEqual(texts)
})

it('the bytes of the same frames are made once, of others anew', () => {
  const frames = ['one', 'two'].map(encodeFrame)
  expect(encodeFrame('two')).toBe(frames[1])
  const bytes = joinFrames(frames)
  expect(joinFrames([...frames])).toBe(bytes)
  expect(joinFrames([frames[0] as Buffer])).toBe(frames[0])
  expect(joinFrames([...frames, encodeFrame('three')])).not.toBe(bytes)
})
