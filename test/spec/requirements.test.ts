import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { citationsIn } from './citations.ts'
import { type Requirement, requirements } from './requirements.ts'

interface Found {
  id: string
  place: string
  counts: boolean
}

/** What is wrong with the citations, one line each; empty when every rule is proven by the tests. */
function faults(rules: readonly Requirement[], citations: readonly Found[]): string[] {
  const known = new Map(rules.map((rule) => [rule.id, rule]))
  const cited = new Set(citations.filter(({ counts }) => counts).map(({ id }) => id))
  return [
    ...rules.filter((rule) => known.get(rule.id) !== rule).map(({ id }) => `${id} is listed twice`),
    ...citations.filter(({ id }) => !known.has(id)).map(({ id, place }) => `${place} cites ${id}, which is unknown`),
    ...citations.filter(({ counts }) => !counts).map(({ id, place }) => `${place} cites ${id} where it does not count`),
    ...rules
      .filter(({ id, exempt }) => exempt === undefined && !cited.has(id))
      .map(({ id, rule }) => `${id} is proven by no test: ${rule}`),
    ...rules
      .filter(({ id, exempt }) => exempt !== undefined && cited.has(id))
      .map(({ id, exempt }) => `${id} is cited, but said to be exempt: ${exempt?.status}`)
  ]
}

const tests = join(import.meta.dirname, '..')
/** They speak of citations without making any. */
const own = new Set(['spec/citations.ts', 'spec/requirements.test.ts'])

const cited: Found[] = readdirSync(tests, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts') && !own.has(file))
  .flatMap((file) =>
    citationsIn(readFileSync(join(tests, file), 'utf8'), file).map(({ line, ...citation }) => ({
      ...citation,
      place: `test/${file}:${line}`
    }))
  )

it('every rule of core.md is proven by a test that cites it, and every citation is of a rule', () => {
  expect(faults(requirements, cited)).toEqual([])
})

it('ids have their form, rules their words, exemptions their reason', () => {
  for (const { id, rule, exempt } of requirements) {
    expect(id).toMatch(/^core-\d+(\.[a-z0-9]+(-[a-z0-9]+)*)*$/)
    expect(rule).not.toBe('')
    if (exempt !== undefined) expect(exempt.reason).not.toBe('')
  }
})

describe('the check itself', () => {
  const rule = (id: string, exempt?: Requirement['exempt']): Requirement => ({
    id,
    rule: 'a rule',
    ...(exempt === undefined ? {} : { exempt })
  })
  const found = (id: string, counts = true): Found => ({ id, counts, place: 'test/x.ts:1' })
  const later = { status: 'later', reason: 'not built' } as const

  it.each<[string, Requirement[], Found[], string[]]>([
    ['all is well', [rule('core-1'), rule('core-2', later)], [found('core-1'), found('core-1')], []],
    ['a rule is not cited', [rule('core-1')], [], ['core-1 is proven by no test: a rule']],
    ['an id is unknown', [], [found('core-9')], ['test/x.ts:1 cites core-9, which is unknown']],
    [
      'an exemption is stale',
      [rule('core-2', later)],
      [found('core-2')],
      ['core-2 is cited, but said to be exempt: later']
    ],
    ['an id stands twice', [rule('core-2', later), rule('core-2', later)], [], ['core-2 is listed twice']],
    [
      'a citation stands where it does not count',
      [rule('core-1')],
      [found('core-1', false)],
      ['test/x.ts:1 cites core-1 where it does not count', 'core-1 is proven by no test: a rule']
    ]
  ])('says what is wrong when %s', (_when, rules, citations, wrong) => {
    expect(faults(rules, citations)).toEqual(wrong)
  })

  it.each<[string, string[]]>([
    [`it('a [core-1] [core-2.x-y]', () => {})`, ['core-1', 'core-2.x-y']],
    ['describe(`${name} [core-1]`, () => { test("b [core-2]", () => {}) })', ['core-1', 'core-2']],
    [`it.each<[string, number]>([['a [core-1]', 1], ['b', 2]])('%s [core-2]', () => {})`, ['core-1', 'core-2']],
    [`const rows = { 'a [core-1]': { code: 'x' } }\nit.each(Object.entries(rows))('%s', () => {})`, ['core-1']],
    [`const rows = [['a [core-1]', 1]] as const\nit.each(rows)('%s', () => {})`, ['core-1']],
    [`it.concurrent.each(['a [core-1]'])('%s', () => {})`, ['core-1']],
    [`it.each([['a [core-1]', 1]])('the rows have no names', () => {})`, []],
    [`it.each([[1, 'a [core-1]']])('%s', () => {})`, []],
    [`it.skip('a [core-1]', () => {})`, []],
    [`it.skipIf(isSlow)('a [core-1]', () => {})`, []],
    [`it.todo('a [core-1]')`, []],
    [`// [core-1]\nit('a', () => { expect('[core-1]').toBe(1) })`, []],
    [`visit('a [core-1]')`, []]
  ])('of %s counts what a title says', (source, ids) => {
    const citations = citationsIn(source, 'x.ts')
    expect(citations.filter(({ counts }) => counts).map(({ id }) => id)).toEqual(ids)
    expect(citations.every(({ id }) => id.startsWith('core-'))).toBe(true)
    expect(citations.length).toBeGreaterThan(0)
  })

  it('tells lines, and finds what is no id as well', () => {
    expect(citationsIn(`\nit('a [core-1.]', () => {})`, 'x.ts')).toEqual([{ id: 'core-1.', line: 2, counts: true }])
    expect(() => citationsIn('it(', 'x.ts')).toThrow('x.ts')
  })
})
