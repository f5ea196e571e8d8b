import { expect, it } from 'vitest'
import { MessagePace } from '../../../server/mcp/bridge/message-pace.ts'

it('S8 a server is listened to at its pace, with so much ahead as comes in a second', () => {
  let now = 5_000
  const pace = new MessagePace(100, () => now)
  for (let at = 0; at < 100; at += 1) expect(pace.spend(1)).toBe(0)
  // 10 ms would do: the next look is worth more than one message.
  expect(pace.spend(1)).toBe(20)
  expect(pace.spend(99)).toBe(1_000)
  now += 1_000
  expect(pace.spend(0)).toBe(0)
  expect(pace.spend(50)).toBe(500)
  // However long it was silent.
  now += 1_000_000
  expect(pace.spend(100)).toBe(0)
  expect(pace.spend(100)).toBe(1_000)
})
