import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'

const root = resolve(import.meta.dirname, '../..')
const page = readFileSync(join(root, 'docs/security.md'), 'utf8')
const promised = page.slice(page.indexOf('## What is promised'), page.indexOf('## What is not promised'))
const rows = promised
  .split('\n')
  .filter((line) => line.startsWith('| ') && line.includes('`test/'))
  .map((line) => line.split('|').map((cell) => cell.trim()))

describe('docs/security.md', () => {
  it('has a row for each threat, and a test for each row', () => {
    expect(rows.length).toBeGreaterThan(20)
    expect(promised.split('\n').filter((line) => line.startsWith('| ')).length).toBe(rows.length + 1)
  })

  // The identifier stands in the test's own text, so that a row cannot outlive what proves it.
  it.each(rows.map(([, threat = '', , tests = '']) => ({ threat, tests })))('$threat', ({ tests }) => {
    for (const [, file = '', ids = ''] of tests.matchAll(/`(test\/[^`]+)`([^`]*)/g)) {
      expect([file, existsSync(join(root, file))]).toEqual([file, true])
      const text = readFileSync(join(root, file), 'utf8')
      for (const [id] of ids.matchAll(/\b[SX]\d+\b/g))
        expect(text, `${file} proves ${id}`).toMatch(new RegExp(`\\b${id}\\b`))
    }
  })

  it('names each of the security tests of reliability.md §1', () => {
    const named = new Set([...promised.matchAll(/\bS(\d+)\b/g)].map(([, number]) => Number(number)))
    // S5 is the conformance suite's, which runs outside of this one.
    expect(Array.from({ length: 29 }, (_, index) => index + 1).filter((number) => !named.has(number))).toEqual([5])
  })
})
