import { describe, expect, expectTypeOf, it } from 'vitest'
import { EventBus, type LiveEvent } from '../../server/events/bus.ts'
import type { DurableEvents, LiveEvents } from '../../server/events/vocabulary.ts'

describe('the bus', () => {
  it('reaches every listener in order, whatever one of them throws', () => {
    const thrown: unknown[] = []
    const bus = new EventBus((error, type) => thrown.push([String(error), type]))
    const heard: LiveEvent[] = []
    bus.subscribe(() => {
      throw new Error('boom')
    })
    const undo = bus.subscribe((event) => heard.push(event))
    bus.publish('tools/change', { scope: 'g' })
    bus.publish('tool/progress', { session: 's', scope: 'g', callId: 'c', name: 'bash', chunk: 'x' })
    undo()
    undo()
    bus.publish('tools/change', {})
    expect(heard.map(({ type }) => type)).toEqual(['tools/change', 'tool/progress'])
    expect(heard[1]?.data).toEqual({ session: 's', scope: 'g', callId: 'c', name: 'bash', chunk: 'x' })
    expect(thrown).toHaveLength(3)
    expect(thrown[0]).toEqual(['Error: boom', 'tools/change'])
  })

  it('the same function subscribed twice hears twice, and each undo is its own', () => {
    const bus = new EventBus()
    let heard = 0
    const listener = () => void (heard += 1)
    const undo = bus.subscribe(listener)
    bus.subscribe(listener)
    bus.publish('tools/change', {})
    undo()
    bus.publish('tools/change', {})
    expect(heard).toBe(3)
  })

  it('core.md §23: live and durable events share no key', () => {
    expectTypeOf<keyof LiveEvents & keyof DurableEvents>().toBeNever()
  })
})
