import { describe, expect, it } from 'vitest'
import { RunSlots } from '../../server/code-runtime/run-slots.ts'

describe('slots for runs (§11)', () => {
  const never = new AbortController().signal

  it('are given in the order of asking, and given back', async () => {
    const slots = new RunSlots(1, 2)
    const order: string[] = []
    await slots.acquire(never)
    const waiting = ['a', 'b'].map(async (name) => {
      await slots.acquire(never)
      order.push(name)
      slots.release()
    })
    await expect(slots.acquire(never)).rejects.toMatchObject({ code: 'OVERLOADED' })
    expect([slots.running, slots.queued]).toEqual([1, 2])
    slots.release()
    await Promise.all(waiting)
    expect(order).toEqual(['a', 'b'])
    expect([slots.running, slots.queued]).toEqual([0, 0])
  })

  it('are not waited for once the signal fires', async () => {
    const slots = new RunSlots(1, 1)
    await slots.acquire(never)
    const stop = new AbortController()
    const waiting = slots.acquire(stop.signal)
    stop.abort()
    await expect(waiting).resolves.toBe(false)
    await expect(slots.acquire(AbortSignal.abort())).resolves.toBe(false)
    expect(slots.queued).toBe(0)
    slots.release()
    expect(slots.running).toBe(0)
  })
})
