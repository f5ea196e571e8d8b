import { describe, expect, it } from 'vitest'
import { defaultBudgets, resolveBudgets } from '../../server/code-runtime/budgets.ts'

describe('budgets (§11)', () => {
  it('default to what is written', () => {
    expect(resolveBudgets()).toEqual(defaultBudgets)
    expect(resolveBudgets({ computeMs: 5, spareWorlds: 0, maxQueuedRuns: 0 })).toMatchObject({
      computeMs: 5,
      spareWorlds: 0,
      maxQueuedRuns: 0
    })
  })

  it('are refused by name when they are no sensible numbers (§5)', () => {
    for (const name of Object.keys(defaultBudgets)) {
      for (const value of [NaN, Infinity, -1, '7', null]) {
        if (value !== null) expect(() => resolveBudgets({ [name]: value }), `${name}: ${String(value)}`).toThrow(name)
      }
      if (name !== 'spareWorlds' && name !== 'maxQueuedRuns')
        expect(() => resolveBudgets({ [name]: 0 }), name).toThrow(name)
    }
    for (const wrong of [
      { maxOutputBytes: 3 },
      { maxOutputBytes: 4.5 },
      { maxWallMs: 2_147_483_648 },
      { spareWorlds: 1.5 },
      { maxConcurrentRuns: 0 }
    ]) {
      expect(() => resolveBudgets(wrong)).toThrow(Object.keys(wrong)[0])
    }
    expect(resolveBudgets({ maxOutputBytes: 4, maxWallMs: 2_147_483_647 }).maxOutputBytes).toBe(4)
  })
})
