import { describe, expect, it } from 'vitest'
import { readCondition, readPath } from '../../../plugins/policies/permissions-arguments.ts'
import type { JsonValue } from '../../../server/json/lossless.ts'

const fail = (key: string, why: string): never => {
  throw new Error(`${key}: ${why}`)
}
const holds = (
  condition: Parameters<typeof readCondition>[0],
  args: JsonValue | undefined,
  whenUnsure = false
): boolean => readCondition(condition, fail)(args, whenUnsure)

describe('paths into arguments', () => {
  it.each<[string, (string | number)[] | undefined]>([
    ['a', ['a']],
    ['a.b[0].c-d', ['a', 'b', 0, 'c-d']],
    ['[2][3]', [2, 3]],
    ['headers["x-a.b"].c', ['headers', 'x-a.b', 'c']],
    ['["\\"]"]', ['"]']],
    ['__proto__', ['__proto__']],
    ['', undefined],
    ['.a', undefined],
    ['a.', undefined],
    ['a..b', undefined],
    ['a[0]b', undefined],
    ['a[-1]', undefined],
    ['a[b]', undefined],
    ['a b', undefined],
    ['["\\x"]', undefined],
    ['["a"', undefined]
  ])('%j', (path, steps) => {
    expect(readPath(path)).toEqual(steps)
  })
})

describe('conditions on arguments', () => {
  const args = JSON.parse(
    '{"a":{"b":[{"n":5,"s":"two\\nlines"}],"null":null},"__proto__":{"x":1},"o":{"y":1,"x":[2]}}'
  ) as JsonValue

  it('equals and oneOf compare whole values, whatever the order of their members', () => {
    expect(holds({ path: 'o', equals: { x: [2], y: 1 } }, args)).toBe(true)
    expect(holds({ path: 'o', equals: { x: [2] } }, args)).toBe(false)
    expect(holds({ path: 'a.null', equals: null }, args)).toBe(true)
    expect(holds({ path: 'a.b[0].n', equals: '5' }, args)).toBe(false)
    expect(holds({ path: 'a.b[0].n', oneOf: [4, 5] }, args)).toBe(true)
    expect(holds({ path: 'a.b[0].n', oneOf: [4, '5'] }, args)).toBe(false)
  })

  it('exists and absent look at own members only', () => {
    for (const path of ['a.null', '__proto__.x', 'a.b[0]']) {
      expect([path, holds({ path, exists: true }, args)]).toEqual([path, true])
      expect([path, holds({ path, absent: true }, args)]).toEqual([path, false])
    }
    for (const path of [
      'a.b[1]',
      'a.b.length',
      'a["0"]',
      'toString',
      'a.constructor',
      'a.null.x',
      'a.b["0"]',
      'o[0]',
      'a.b[0].s.length'
    ]) {
      expect([path, holds({ path, exists: true }, args)]).toEqual([path, false])
      expect([path, holds({ path, absent: true }, args)]).toEqual([path, true])
    }
    expect(holds({ path: 'a', absent: true }, undefined)).toBe(true)
    expect(holds({ path: 'a', exists: true }, 'text')).toBe(false)
  })

  it('matches takes the whole text, line breaks for the dot included, and no other kind of value', () => {
    expect(holds({ path: 'a.b[0].s', matches: 'two.*' }, args)).toBe(true)
    expect(holds({ path: 'a.b[0].s', matches: 'two' }, args)).toBe(false)
    expect(holds({ path: 'a.b[0].s', matches: 'x|two.lines|y' }, args)).toBe(true)
    expect(holds({ path: 's', matches: 'a' }, { s: 'a\n' })).toBe(false)
    expect(holds({ path: 's', matches: '^a$' }, { s: 'a\nb' })).toBe(false)
    expect(holds({ path: 'a.b[0].n', matches: '5' }, args)).toBe(false)
  })

  it('matches takes no more than linear time, and is unsure of what would still take long', () => {
    expect(holds({ path: 's', matches: '(a|a)*b' }, { s: 'a'.repeat(10_000) })).toBe(false)
    const long = { s: 'a'.repeat(65_537) }
    expect(holds({ path: 's', matches: 'b' }, long, true)).toBe(true)
    expect(holds({ path: 's', matches: 'a*' }, long, false)).toBe(false)
  })

  it('startsWith, lessThan and moreThan', () => {
    expect(holds({ path: 'a.b[0].s', startsWith: 'two\n' }, args)).toBe(true)
    expect(holds({ path: 'a.b[0].s', startsWith: 'lines' }, args)).toBe(false)
    expect(holds({ path: 'a.b[0].n', moreThan: 4, lessThan: 6 }, args)).toBe(true)
    expect(holds({ path: 'a.b[0].n', moreThan: 5 }, args)).toBe(false)
    expect(holds({ path: 'a.b[0].n', lessThan: 5 }, args)).toBe(false)
    expect(holds({ path: 's', moreThan: 4 }, { s: '5' })).toBe(false)
  })

  it.each<[Parameters<typeof readCondition>[0], string]>([
    [{ path: 'a..b', exists: true }, 'path: is no path'],
    [{ path: 'a' }, ': tests nothing'],
    [{ path: 'a', absent: true, equals: 1 }, 'absent: excludes'],
    [{ path: 'a', absent: true, exists: true }, 'absent: excludes'],
    [{ path: 'a', matches: '(' }, 'matches: error parsing regexp'],
    [{ path: 'a', matches: '(?=a)b' }, 'matches: error parsing regexp'],
    [{ path: 'a', matches: '(a)\\1' }, 'matches: error parsing regexp']
  ])('%j cannot be meant', (condition, message) => {
    expect(() => readCondition(condition, fail)).toThrow(message)
  })
})
