import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { MessagePipe } from '../../server/code-runtime/keeper/message-pipe.js'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { until } from '../helpers/until.ts'

const mib = 1024 * 1024

type Message = { type: string } & Record<string, unknown>

let ours: Socket
let theirs: Socket
let ended: number
const received: unknown[] = []
let pipe: MessagePipe<Message, Message>

beforeEach(async () => {
  const server = createServer().listen(join(temporaryDirectory(), 'pipe'))
  await once(server, 'listening')
  ours = connect(server.address() as string)
  ;[theirs] = (await once(server, 'connection')) as [Socket]
  server.close()
  received.length = 0
  ended = 0
  pipe = new MessagePipe(
    theirs,
    (message) => received.push(message),
    () => (ended += 1)
  )
})
afterEach(() => {
  ours.destroy()
  theirs.destroy()
})

describe('messages between the server and its keeper', () => {
  it('arrive as they were and in order, however large, and whatever is in their texts', async () => {
    const sent: Message[] = [
      { type: 'call', argument: `["${'x'.repeat(8 * mib)}"]` },
      { type: 'reply', value: 'ü𝄞\u0000\n'.repeat(100_000), lone: '\ud800', none: undefined },
      { type: 'call', id: 1, name: '\ud800\n"', argument: 'ü𝄞\u0000\n{}\n' },
      { type: 'call', id: 2, name: '', argument: '' },
      { type: 'reply', value: undefined },
      ...Array.from({ length: 5_000 }, (_, id) => ({ type: 'reply', id, value: '1' })),
      { type: 'settled', logs: Array.from({ length: 10_000 }, (_, n) => `line ${n}`) }
    ]
    const other = new MessagePipe(
      ours,
      () => {},
      () => {}
    )
    for (const message of sent) other.post(message)
    await until(() => received.length === sent.length)
    expect(received).toEqual(sent)
  })

  it('wait where the other side does not take them', async () => {
    const posted = Array.from({ length: 40 }, (_, n) => ({ type: 'call', argument: `${n}${'x'.repeat(mib)}` }))
    let count = 0
    const all = (async () => {
      for (const message of posted) {
        const room = pipe.room()
        if (room !== undefined) await room
        pipe.post(message)
        count += 1
      }
    })()
    ours.pause()
    await until(() => pipe.room() !== undefined)
    const [held, unsent] = [count, theirs.writableLength]
    expect(held).toBeLessThan(posted.length)
    expect(unsent).toBeLessThan(10 * mib)
    const taken: unknown[] = []
    const other = new MessagePipe(
      ours,
      (message) => taken.push(message),
      () => {}
    )
    ours.resume()
    await all
    await until(() => taken.length === posted.length)
    expect(taken).toEqual(posted)
    expect(other.room()).toBeUndefined()
  })

  it('do not wait for a side that is gone, and its end is told once', async () => {
    while (pipe.room() === undefined) pipe.post({ type: 'reply', value: 'x'.repeat(mib) })
    const room = pipe.room()
    ours.destroy()
    await room
    expect(pipe.room()).toBeUndefined()
    pipe.post({ type: 'ping' })
    await until(() => ended > 0)
    expect(ended).toBe(1)
  })

  it('are the last of a side that sends what is none', async () => {
    ours.write(Buffer.from([0, 0, 0, 1, 0x7f, 0, 0, 0, 1, 0x7f]))
    await until(() => ended === 1)
    expect(received).toEqual([])
  })
})
