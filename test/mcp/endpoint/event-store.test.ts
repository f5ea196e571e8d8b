import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'
import { expect, it } from 'vitest'
import { RecentMessages } from '../../../server/mcp/endpoint/event-store.ts'

const note = (data: string): JSONRPCMessage => ({ jsonrpc: '2.0', method: 'notifications/message', params: { data } })
const answer = (id: number, text = ''): JSONRPCMessage => ({
  jsonrpc: '2.0',
  id,
  result: { text, _meta: { callId: `c${id}` } }
})

async function replay(store: RecentMessages, after: string): Promise<JSONRPCMessage[]> {
  const messages: JSONRPCMessage[] = []
  await store.replayEventsAfter(after, { send: async (_id, message) => void messages.push(message) })
  return messages
}

it('gives what came after an event on the same stream, in order', async () => {
  const store = new RecentMessages(100_000)
  const first = await store.storeEvent('a', note('1'))
  await store.storeEvent('b', note('other'))
  await store.storeEvent('a', note('2'))
  expect(store.has(first)).toBe(true)
  expect(await replay(store, first)).toEqual([note('2')])
  expect(store.restOfEnded(first)).toBeUndefined()
  const last = await store.storeEvent('a', answer(7))
  expect(store.restOfEnded(first)?.map(([, message]) => message)).toEqual([note('2'), answer(7)])
  expect(store.restOfEnded(last)).toEqual([])
  for (const unknown of ['99', '__proto__', '']) {
    expect(store.has(unknown)).toBe(false)
    expect(store.restOfEnded(unknown)).toBeUndefined()
  }
})

it('keeps the newest within its bytes, and of what is too large that it was', async () => {
  const store = new RecentMessages(5_000)
  const ids: string[] = []
  for (let n = 0; n < 100; n += 1) ids.push(await store.storeEvent('a', note('x'.repeat(200))))
  expect(store.has(ids[0] ?? '')).toBe(false)
  expect(store.has(ids.at(-1) ?? '')).toBe(true)
  const kept = ids.filter((id) => store.has(id))
  expect(kept.length).toBeGreaterThan(5)
  expect(kept.length).toBeLessThan(25)

  const before = ids.at(-1) ?? ''
  await store.storeEvent('a', note('y'.repeat(10_000)))
  await store.storeEvent('a', answer(3, 'z'.repeat(10_000)))
  const [lost, told] = await replay(store, before)
  expect(JSON.stringify(lost)).not.toContain('yyy')
  expect(told).toMatchObject({ id: 3, error: { data: { callId: 'c3' } } })
  // A client that waits for the answer gets the error, and then there is an end.
  expect(store.restOfEnded(before)?.at(-1)?.[1]).toMatchObject({ id: 3 })
})
