import { describe, expect, it } from 'vitest'
import { formatPath, stepsOf } from '../../server/json/path.ts'

describe('formatPath', () => {
  it('writes names with dots and indices with brackets', () => {
    expect(formatPath('$', ['rows', 3, 'at'])).toBe('$.rows[3].at')
    expect(formatPath('$', [0, 1])).toBe('$[0][1]')
  })

  it('has no leading dot under an empty root, whose own name is "arguments" (core.md §3.13)', () => {
    expect(formatPath('', ['config', 'host'])).toBe('config.host')
    expect(formatPath('', ['tags', 1])).toBe('tags[1]')
    expect(formatPath('', [])).toBe('arguments')
    expect(formatPath('value', [])).toBe('value')
  })

  it('quotes a name that a dotted path could not tell apart', () => {
    expect(formatPath('$', ['a.b', 'my-tool', '', 'x"y'])).toBe('$["a.b"].my-tool[""]["x\\"y"]')
    expect(formatPath('', ['a b', 'c'])).toBe('["a b"].c')
  })

  it('stays short for deep paths and long names', () => {
    const deep = formatPath(
      '$',
      Array.from({ length: 5000 }, (_, index) => index)
    )
    expect(deep.startsWith('$[0][1]')).toBe(true)
    expect(deep).toContain('[63]…[4936]')
    expect(deep.endsWith('[4999]')).toBe(true)
    expect(formatPath('$', ['k'.repeat(1_000_000)]).length).toBeLessThan(100)
  })
})

describe('stepsOf', () => {
  it('lists a trail from the root on', () => {
    const rows = { parent: undefined, step: 'rows' }
    expect(stepsOf({ parent: rows, step: 3 })).toEqual(['rows', 3])
    expect(stepsOf(undefined)).toEqual([])
  })
})
