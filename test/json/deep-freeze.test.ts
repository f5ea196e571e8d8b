import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { deepFreeze } from '../../server/json/deep-freeze.ts'
import { jsonValue, nest } from '../helpers/json-arbitraries.ts'

function unfrozen(root: unknown): number {
  let count = 0
  const open = [root]
  const seen = new Set<unknown>()
  for (let at = open.pop(); open.length > 0 || at !== undefined; at = open.pop()) {
    if (typeof at !== 'object' || at === null || seen.has(at)) continue
    seen.add(at)
    if (!Object.isFrozen(at)) count += 1
    open.push(...(Object.values(at) as unknown[]))
  }
  return count
}

describe('deepFreeze (core.md §2.6) [core-2.6]', () => {
  it('returns the very value, frozen to the bottom and otherwise as it was', () => {
    fc.assert(
      fc.property(jsonValue, (value) => {
        const before = JSON.stringify(value)
        expect(deepFreeze(value)).toBe(value)
        expect(unfrozen(value)).toBe(0)
        expect(JSON.stringify(value)).toBe(before)
      })
    )
  })

  it('makes a write to any part of it fail', () => {
    const value = deepFreeze({ rows: [{ a: 1 }] })
    expect(() => {
      value.rows[0]!.a = 2
    }).toThrow(TypeError)
    expect(() => value.rows.push({ a: 3 })).toThrow(TypeError)
  })

  it('goes on below what came frozen only at its top', () => {
    const inner = { list: [{ a: 1 }] }
    deepFreeze(Object.freeze({ inner: Object.freeze([inner]) }))
    expect(unfrozen(inner)).toBe(0)
  })

  it('ends on cycles, frozen or not, and on shared parts', () => {
    const loop: Record<string, unknown> = {}
    loop['self'] = loop
    deepFreeze(loop)
    expect(Object.isFrozen(loop)).toBe(true)

    const open = { a: 1 }
    const ring: Record<string, unknown> = { open }
    ring['back'] = [ring, open, open]
    Object.freeze(ring)
    deepFreeze(ring)
    expect(unfrozen(ring)).toBe(0)
  })

  it('leaves scalars and functions alone', () => {
    const act = (): number => 1
    expect(deepFreeze('x')).toBe('x')
    expect(deepFreeze(null)).toBeNull()
    expect(deepFreeze({ act }).act).toBe(act)
    expect(Object.isFrozen(act)).toBe(false)
  })

  it.each([undefined, 'k'])('freezes 200,000 levels (member %s)', (key) => {
    const deep = deepFreeze(nest(200_000, {}, key))
    let at: unknown = deep
    for (let level = 0; level < 200_000; level += 1) at = (at as never)[key ?? 0]
    expect(Object.isFrozen(at)).toBe(true)
  })
})
