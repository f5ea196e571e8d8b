import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { diffCard, diffMeta } from '../../../plugins/tools/diff-card.ts'
import { diffLines } from '../../../plugins/tools/diff-lines.ts'
import type { JsonValue } from '../../../server/json/lossless.ts'
import type { FileDiff } from '../../../server/tools/definition.ts'

/** What the changes make of the old lines. */
function applied(old: readonly string[], fresh: readonly string[]): { lines: string[]; touched: number } {
  const lines: string[] = []
  let at = 0
  let touched = 0
  for (const { oldStart, oldEnd, newStart, newEnd } of diffLines(old, fresh)) {
    expect(oldStart, 'in order and apart').toBeGreaterThanOrEqual(at)
    lines.push(...old.slice(at, oldStart), ...fresh.slice(newStart, newEnd))
    touched += oldEnd - oldStart + newEnd - newStart
    at = oldEnd
  }
  return { lines: [...lines, ...old.slice(at)], touched }
}

/** The length of the longest common subsequence, by the book. */
function commonLength(old: readonly string[], fresh: readonly string[]): number {
  const rows = Array.from({ length: old.length + 1 }, () => Array<number>(fresh.length + 1).fill(0))
  old.forEach((one, x) =>
    fresh.forEach((other, y) => {
      rows[x + 1]![y + 1] = one === other ? rows[x]![y]! + 1 : Math.max(rows[x]![y + 1]!, rows[x + 1]![y]!)
    })
  )
  return rows[old.length]![fresh.length]!
}

describe('diffLines', () => {
  it('finds the fewest changes, which make one list the other', () => {
    const list = fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 14 })
    fc.assert(
      fc.property(list, list, (old, fresh) => {
        const { lines, touched } = applied(old, fresh)
        expect(lines).toEqual(fresh)
        expect(touched).toBe(old.length + fresh.length - 2 * commonLength(old, fresh))
      }),
      { numRuns: 1000 }
    )
  })

  it('is right, if not minimal, for lists that have little in common', () => {
    const numbers = (count: number, name: string) => Array.from({ length: count }, (_, at) => `${name}${at}`)
    const [old, fresh] = [numbers(3000, 'old'), numbers(3100, 'new')]
    expect(applied(old, fresh).lines).toEqual(fresh)
    const replaced = old.map((line, at) => (at % 2 === 0 ? line : `${line}!`))
    expect(diffLines(old, replaced)).toHaveLength(1500)
    expect(applied(old, replaced).lines).toEqual(replaced)
  })
})

const numbered = (count: number): string[] => Array.from({ length: count }, (_, at) => `line ${at + 1}\n`)
const diffsOf = (meta: JsonValue): FileDiff[] => (meta as unknown as { diffs: FileDiff[] }).diffs

describe('diffMeta', () => {
  it('C56 keeps scattered changes apart, each with three lines of context', () => {
    const lines = numbered(100)
    const before = lines.join('')
    const after = lines.with(19, 'X\n').with(79, 'X\n').join('')
    const diffs = diffsOf(diffMeta('/f', before, after))
    expect(diffs).toEqual([
      {
        path: '/f',
        oldText: 'line 17\nline 18\nline 19\nline 20\nline 21\nline 22\nline 23',
        newText: 'line 17\nline 18\nline 19\nX\nline 21\nline 22\nline 23'
      },
      {
        path: '/f',
        oldText: 'line 77\nline 78\nline 79\nline 80\nline 81\nline 82\nline 83',
        newText: 'line 77\nline 78\nline 79\nX\nline 81\nline 82\nline 83'
      }
    ])
  })

  it('joins changes whose contexts touch', () => {
    const lines = numbered(30)
    const changed = (...at: number[]) =>
      diffsOf(diffMeta('/f', lines.join(''), at.reduce((all, one) => all.with(one, 'X\n'), lines).join('')))
    expect(changed(5, 12)).toHaveLength(1)
    expect(changed(5, 13)).toHaveLength(2)
  })

  it('is empty for new files and for no change', () => {
    expect(diffMeta('/f', null, 'a')).toEqual({ diffs: [] })
    expect(diffMeta('/f', 'a', 'a')).toEqual({ diffs: [] })
  })

  it('has no old text where there was none, and no markers for a missing last newline', () => {
    expect(diffsOf(diffMeta('/f', '', 'a\nb\n'))).toEqual([{ path: '/f', oldText: null, newText: 'a\nb' }])
    expect(diffsOf(diffMeta('/f', 'a', 'a\n'))).toEqual([{ path: '/f', oldText: 'a', newText: 'a' }])
    expect(diffsOf(diffMeta('/f', 'a\n', ''))).toEqual([{ path: '/f', oldText: 'a', newText: '' }])
  })

  it('shows the same hunks whatever surrounds the change', () => {
    const around = fc.array(fc.constantFrom('a\n', 'b\n', '\n'), { minLength: 3, maxLength: 12 })
    fc.assert(
      fc.property(around, around, (head, tail) => {
        const of = (middle: string) => [...head, middle, ...tail].join('')
        const context = (lines: string[]) => lines.join('')
        const shown = (middle: string) =>
          `${context(head.slice(-3))}${middle}${context(tail.slice(0, 3))}`.replace(/\n$/, '')
        expect(diffsOf(diffMeta('/f', of('old\n'), of('new\n')))).toEqual([
          { path: '/f', oldText: shown('old\n'), newText: shown('new\n') }
        ])
        expect(diffsOf(diffMeta('/f', of(''), of('new\n')))).toEqual([
          { path: '/f', oldText: shown(''), newText: shown('new\n') }
        ])
      })
    )
  })

  it('is bounded, and then its card says so', () => {
    const lines = numbered(40_000)
    const after = lines.map((line, at) => (at % 20 === 0 ? `${'y'.repeat(200)}\n` : line))
    const meta = diffMeta('/f', lines.join(''), after.join(''))
    expect(Buffer.byteLength(JSON.stringify(meta))).toBeLessThan(70_000)
    const { diffs, total } = meta as unknown as { diffs: FileDiff[]; total: number }
    expect(total).toBe(2000)
    expect(diffs.length).toBeGreaterThan(50)
    expect(diffCard(meta, 'Edit')).toEqual({
      card: 'diff',
      title: `Edit /f (${diffs.length} of 2000 changes)`,
      diffs
    })
    const wide = (letter: string) => `${letter}\n`.repeat(1_100_000)
    expect(diffMeta('/f', wide('a'), wide('b'))).toEqual({ diffs: [], total: 1 })
    const huge = diffMeta('/f', 'a', 'b'.repeat(100_000))
    expect(huge).toEqual({ diffs: [], total: 1 })
    expect(diffCard(huge, 'Edit')).toBeUndefined()
  })
})

it('makes no card of damaged metadata', () => {
  const good = { path: '/f', oldText: 'a', newText: 'b' }
  expect(diffCard({ diffs: [good] }, 'Edit')).toEqual({ card: 'diff', diffs: [good] })
  const damaged: JsonValue[] = [
    null,
    'x',
    [],
    {},
    { diffs: [] },
    { diffs: 'x' },
    { diffs: [good, null] },
    { diffs: [{ ...good, oldText: 1 }] },
    { diffs: [{ path: '/f', newText: 'b' }] },
    { diffs: [{ ...good, path: [] }] }
  ]
  expect(damaged.map((meta) => diffCard(meta, 'Edit'))).toEqual(damaged.map(() => undefined))
  expect(diffCard(undefined, 'Edit')).toBeUndefined()
})
