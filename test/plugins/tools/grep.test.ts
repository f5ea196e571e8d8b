import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Search } from '../../../server/backends/search/search.ts'
import type { JsonValue } from '../../../server/json/lossless.ts'
import type { ToolResult } from '../../../server/pipeline/result.ts'
import { resultCard } from '../../../server/tools/cards.ts'
import { codeOf } from '../../helpers/pipeline-fixture.ts'
import { SearchFixture, textIn } from '../../helpers/search-fixture.ts'

async function open(fileSearch?: Search) {
  const search = await SearchFixture.open({}, fileSearch && { fileSearch })
  onTestFinished(() => search.close())
  return search
}

/** Finds whatever lines it is given, in one file of the session's directory. */
const finding = (lines: readonly string[], file = 'f'): Search => ({
  files: async () => [],
  matches: async (_pattern, { root }) => lines.map((line, at) => ({ path: join(root, file), lineNumber: at + 1, line }))
})

const valueOf = (result: ToolResult) => (result as { value: unknown }).value as { matches: { line: string }[] }

describe('grep', () => {
  it('C62 groups lines by file under a header', async () => {
    const search = await open()
    search.write('a.ts', 'foo 1\nbar\nfoo 3\n')
    search.write('b.ts', 'a foo\n')
    const result = await search.call('grep', { pattern: 'foo' })
    expect(textIn(result)).toBe('Found 3 matches\n\na.ts\nLine 1: foo 1\nLine 3: foo 3\n\nb.ts\nLine 1: a foo')
    const file = (path: string, ...matches: [number, string][]) => ({
      path,
      matches: matches.map(([lineNumber, line]) => ({ lineNumber, line }))
    })
    expect(result).toMatchObject({
      value: {
        matches: [
          { path: 'a.ts', lineNumber: 1, line: 'foo 1' },
          { path: 'a.ts', lineNumber: 3, line: 'foo 3' },
          { path: 'b.ts', lineNumber: 1, line: 'a foo' }
        ]
      },
      meta: {
        shape: 'matches',
        files: [file('a.ts', [1, 'foo 1'], [3, 'foo 3']), file('b.ts', [1, 'a foo'])],
        truncated: false,
        total: 3
      }
    })
    const none = await search.call('grep', { pattern: 'nowhere' })
    expect([none.isError, textIn(none)]).toEqual([false, 'No matches found'])
    expect(textIn(await search.call('grep', { pattern: 'bar', path: 'a.ts' }))).toBe(
      'Found 1 match\n\na.ts\nLine 2: bar'
    )
  })

  it('C63 refuses what cannot be searched', async () => {
    const search = await open()
    search.write('a.ts')
    search.write('b.js')
    const code = async (args: { [key: string]: JsonValue }) => codeOf(await search.call('grep', args))
    expect(await code({ pattern: '(' })).toBe('SEARCH_INVALID_PATTERN')
    expect(await code({ pattern: '' })).toBe('none')
    expect(await code({ pattern: ' ' })).toBeUndefined()
    expect(await code({ pattern: 'x', path: 'missing' })).toBe('SEARCH_FAILED')
    expect(await code({ pattern: 'x', path: ' ' })).toBe('none')
    for (const include of ['', '  ', '!x', 'a,b', '{a,b},c']) expect(await code({ pattern: 'x', include })).toBe('none')
    expect(await code({ pattern: 'x', include: '['.repeat(1_000_000) })).toBe('SEARCH_INVALID_PATTERN')
    expect(await code({ pattern: 'x', include: '{a' })).toBe('SEARCH_INVALID_PATTERN')
    for (const include of ['*.{ts,js}', '[,]', 'a\\,b', '{a,{b,c}}'])
      expect(await code({ pattern: 'x', include })).toBeUndefined()
    expect(await code({ pattern: 'x', path: '/proc/self/environ' })).toBe('FS_PERMISSION_DENIED')
    expect(textIn(await search.call('grep', { pattern: 'foo', include: '*.{ts,js}' }))).toContain('Found 2 matches')
  })

  it('C66 takes what looks like an option or a command literally', async () => {
    const search = await open()
    search.write('a', 'x -e y\n')
    expect(textIn(await search.call('grep', { pattern: '-e' }))).toContain('Line 1: x -e y')
    expect(codeOf(await search.call('grep', { pattern: 'x', path: '-x' }))).toBe('SEARCH_FAILED')
    search.write('-x', 'x\n')
    expect(textIn(await search.call('grep', { pattern: 'x', path: '-x' }))).toContain('-x\nLine 1: x')
    expect(codeOf(await search.call('grep', { pattern: '$(touch pwn);*' }))).toBeUndefined()
    expect(readdirSync(search.cwd)).not.toContain('pwn')
  })

  it('reads nothing of the server’s own directory, from wherever the search starts', async () => {
    const search = await open()
    const above = join(search.data, '..')
    for (const directory of [above, search.data]) writeFileSync(join(directory, 'admin-token'), 'secret\n')
    const result = await search.call('grep', { pattern: 'secret', path: above })
    expect(valueOf(result).matches).toEqual([{ path: join(above, 'admin-token'), lineNumber: 1, line: 'secret' }])
  })

  it('shows 250 matches and the beginning of long lines, and saves all of it', async () => {
    const search = await open(finding(Array.from({ length: 300 }, () => '你'.repeat(1_000))))
    const result = await search.call('grep', { pattern: 'x' })
    const [header, list = '', footer = ''] = textIn(result).split('\n\n')
    expect(header).toBe('Found 250 of 300 matches')
    const lines = list.split('\n').slice(1)
    expect(lines).toHaveLength(250)
    expect(lines[0]).toBe(`Line 1: ${'你'.repeat(666)} (line truncated)`)
    const whole = search.saved(footer)
    expect(whole).toContain('Found 300 matches')
    expect(whole).toContain(`\nLine 300: ${'你'.repeat(1_000)}\n`)
    expect(valueOf(result).matches[299]?.line).toHaveLength(1_000)
  })

  it('bounds what is stored, and keeps one match at least', async () => {
    const meta = async (lines: string[], file?: string) =>
      (await (await open(finding(lines, file))).call('grep', { pattern: 'x' })).meta
    const wide = (await meta(Array.from({ length: 250 }, () => 'x'.repeat(2_000)))) as {
      files: { matches: unknown[] }[]
    }
    expect(Buffer.byteLength(JSON.stringify(wide))).toBeLessThanOrEqual(65_536)
    expect(wide).toMatchObject({ truncated: true, total: 250 })
    expect(wide.files[0]?.matches.length).toBeGreaterThan(20)
    const escaped = await meta(['\u0001'.repeat(2_000)], '\u0001'.repeat(60_000))
    expect(escaped).toMatchObject({ files: [{ matches: [{ lineNumber: 1 }] }], truncated: false, total: 1 })
  })

  it('makes cards out of the arguments, and of what is stored unless that is damaged', async () => {
    const search = await open(finding(['x']))
    const tool = search.fixture.tools.get('grep')
    expect(tool?.presentCall?.({ pattern: 'x', path: 'p', include: '*.ts' })).toMatchObject({
      card: 'generic',
      kind: 'search',
      title: 'Search x in p (*.ts)',
      rawInput: 'x'
    })
    const { meta } = await search.call('grep', { pattern: 'x' })
    const card = (damage: object = {}, isError = false) =>
      resultCard(tool, '{"pattern":"x"}', { content: [], isError, meta: { ...(meta as object), ...damage } as never })
    const files = [{ path: 'f', matches: [{ lineNumber: 1, line: 'x' }] }]
    expect(card()).toEqual({ card: 'search', shape: 'matches', files, truncated: false, total: 1 })
    expect(card({ files: [], total: 0 })).toMatchObject({ files: [], total: 0 })
    expect(card({}, true)).toBeUndefined()
    const damages = [
      { files: 'x' },
      { files: [null] },
      { files: [{ path: 'f' }] },
      { files: [{ path: 1, matches: [] }] },
      { files: [{ path: 'f', matches: [null] }] },
      { files: [{ path: 'f', matches: [{ lineNumber: 0, line: 'x' }] }] },
      { total: 0 },
      { shape: 'paths' }
    ]
    for (const damage of damages) expect(card(damage)).toBeUndefined()
    expect([tool?.timeoutMs, tool?.isConcurrencySafe, tool?.idempotent]).toEqual([30_000, undefined, true])
  })
})
