import { setImmediate } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { Lane, type LaneCall } from '../../server/code-mode/lane.ts'

const turns = async (count: number): Promise<void> => {
  for (let turn = 0; turn < count; turn += 1) await Promise.resolve()
}

describe('the lane', () => {
  it('misses no body that ends just when it looks whether the next call may start (code-mode.md §13.4)', async () => {
    for (let length = 0; length < 40; length += 1) {
      const lane = new Lane(2)
      const committed: string[] = []
      const call = (name: string, mode: 'parallel' | 'exclusive', turnsOfBody: number): LaneCall => ({
        mode: () => mode,
        start: async () => () => turns(turnsOfBody),
        commit: async () => void committed.push(name),
        abandon: () => undefined
      })
      lane.submit(call('first', 'parallel', length))
      lane.submit(call('second', 'parallel', 3))
      lane.submit(call('last', 'exclusive', 0))
      // All that needs no more than the loop has happened then.
      for (let turn = 0; turn < 10; turn += 1) await setImmediate()
      expect({ length, committed }).toEqual({ length, committed: ['first', 'second', 'last'] })
    }
  })
})
