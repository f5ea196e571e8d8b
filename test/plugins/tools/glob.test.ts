import { symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { GlobOptions } from '../../../plugins/tools/glob.ts'
import { samplePaths } from '../../../plugins/tools/glob-text.ts'
import type { Search } from '../../../server/backends/search/search.ts'
import type { JsonValue } from '../../../server/json/lossless.ts'
import { block } from '../../../server/pipeline/decisions.ts'
import type { ToolResult } from '../../../server/pipeline/result.ts'
import { resultCard } from '../../../server/tools/cards.ts'
import { bareTool } from '../../helpers/bare-tool.ts'
import { codeOf } from '../../helpers/pipeline-fixture.ts'
import { SearchFixture, textIn } from '../../helpers/search-fixture.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'

async function open(options?: Partial<GlobOptions>, services?: Parameters<typeof SearchFixture.open>[1]) {
  const search = await SearchFixture.open(options, services)
  onTestFinished(() => search.close())
  return search
}

/** Finds whatever names it is given, in the session's directory. */
const finding = (names: readonly string[]): Search => ({
  files: async (_glob, { root }) => names.map((name) => join(root, name)),
  matches: async () => []
})

const valueOf = (result: ToolResult) => (result as { value: unknown }).value as { root: string; paths: string[] }

const many = Array.from({ length: 150 }, (_, at) => `f${at}.ts`)

describe('glob', () => {
  it('C60 shows paths from the session’s directory on', async () => {
    const search = await open()
    for (const name of ['a.ts', 'deep/b.ts', '.hidden/c.ts', '.git/d.ts', 'e.js']) search.write(name)
    const result = await search.call('glob', { pattern: '*.ts' })
    expect(result).toMatchObject({ isError: false, value: { root: '.' } })
    expect(textIn(result).split('\n').sort()).toEqual(['.hidden/c.ts', 'a.ts', 'deep/b.ts'])
    const none = await search.call('glob', { pattern: '*.py' })
    expect(none).toMatchObject({ isError: false, value: { root: '.', paths: [] } })
    expect(textIn(none)).toBe('No files found')
  })

  it('C60 shows 100 of 150 and says where the others are', async () => {
    const search = await open()
    for (const name of many) search.write(name)
    const result = await search.call('glob', { pattern: '*.ts' })
    expect(valueOf(result).paths).toHaveLength(150)
    const [list, footer = ''] = textIn(result).split('\n\n')
    expect(list?.split('\n')).toHaveLength(100)
    expect(footer).toMatch(/100 of 150/)
    const whole = search.saved(footer).split('\n')
    expect(whole).toHaveLength(150)
    expect(whole.slice(0, 100)).toEqual(list?.split('\n'))
    expect(result.meta).toMatchObject({ shape: 'paths', truncated: true, total: 150 })
  })

  it('searches the directory it is told, and shows paths as that was named', async () => {
    const search = await open()
    const elsewhere = temporaryDirectory()
    writeFileSync(join(elsewhere, 'x.ts'), '')
    search.write('sub/a.ts')
    symlinkSync(elsewhere, join(search.cwd, 'link'))
    const value = async (path: string) =>
      ((await search.call('glob', { pattern: '*.ts', path })) as { value?: JsonValue }).value
    expect(await value('sub')).toEqual({ root: 'sub', paths: ['sub/a.ts'] })
    expect(await value(join(search.cwd, 'sub/'))).toEqual({ root: 'sub', paths: ['sub/a.ts'] })
    expect(await value(search.cwd)).toEqual({ root: '.', paths: ['sub/a.ts'] })
    expect(await value(elsewhere)).toEqual({ root: elsewhere, paths: [join(elsewhere, 'x.ts')] })
    expect(await value('link')).toEqual({ root: 'link', paths: ['link/x.ts'] })
  })

  it('refuses what is blank, missing, no directory, or not to be read', async () => {
    const search = await open()
    search.write('f')
    const code = async (args: { [key: string]: JsonValue }) => codeOf(await search.call('glob', args))
    expect(await code({ pattern: ' ' })).toBe('none')
    expect(await code({ pattern: '*', path: '\t' })).toBe('none')
    for (const path of ['missing', 'f', 'f/below', '-x'])
      expect(await code({ pattern: '*', path })).toBe('SEARCH_FAILED')
    expect(await code({ pattern: '[' })).toBe('SEARCH_INVALID_PATTERN')
    for (const path of ['/proc/self', '/dev', search.data])
      expect(await code({ pattern: '*', path })).toBe('FS_PERMISSION_DENIED')
    expect(await code({})).toBe('INVALID_ARGS')
  })

  it('lists nothing of the server’s own directory, from wherever the search starts', async () => {
    const search = await open()
    const above = join(search.data, '..')
    for (const directory of [above, search.data]) writeFileSync(join(directory, 'admin-token'), 'secret')
    const { paths } = valueOf(await search.call('glob', { pattern: 'admin-token', path: above }))
    expect(paths).toEqual([join(above, 'admin-token')])
  })

  it('keeps a name with a line break on one line', async () => {
    const search = await open({}, { fileSearch: finding(['a\nb.ts']) })
    expect(textIn(await search.call('glob', { pattern: '*' }))).toBe('"a\\nb.ts"')
  })

  it('samples every top-level entry in turns, each group together', async () => {
    const names = [...many.map((name) => `big/${name}`), 'z.ts', 'small/1', 'small/2']
    const search = await open({ globMaxResults: 5, sampleOverCapGlobResults: true }, { fileSearch: finding(names) })
    const text = textIn(await search.call('glob', { pattern: '*' }))
    expect(text.split('\n').slice(0, 5)).toEqual(['big/f0.ts', 'big/f1.ts', 'z.ts', 'small/1', 'small/2'])
    expect(text).toMatch(/5 of 153 paths, some of each/)
    expect(samplePaths(['/r/a/1', '/r/b', '/r/a/2'], '/r', 9)).toEqual(['/r/a/1', '/r/a/2', '/r/b'])
    expect(samplePaths(['/a/1', '/a/2', '/b'], '/', 2)).toEqual(['/a/1', '/b'])
  })
})

describe('a list that is longer than what is shown', () => {
  const failing = {
    save: () => Promise.reject(new Error('full')),
    directoryOf: () => '',
    removeSession: async () => {}
  }

  it.each([
    ['the store fails', { spill: failing }, {}],
    ['the call has no session', {}, { agent: undefined }]
  ])('is shown all the same when %s', async (_name, services, more) => {
    const search = await open({}, { fileSearch: finding(many), ...services })
    const result = await search.call('glob', { pattern: '*' }, more)
    expect(result.isError).toBe(false)
    expect(textIn(result)).toMatch(/100 of 150 paths; the whole list could not be saved/)
  })

  it('is left alone where somebody else has the last word, and for programs', async () => {
    const search = await open({}, { fileSearch: finding(many) })
    const call = async (more: object = {}) => textIn(await search.call('glob', { pattern: '*' }, more))
    const { fixture } = search
    expect(await call({ parent: Symbol('outer') })).toMatch(/\(Shown are the first 100 of 150 paths\.\)$/)
    for (const decision of [
      block([{ type: 'text', text: 'mine' }]),
      { kind: 'accept', content: [{ type: 'text', text: 'mine' }] }
    ]) {
      const undo = fixture.hook('postExecute', () => decision as never)
      expect(await call()).toBe('mine')
      undo()
    }
    const undo = fixture.register(bareTool('glob'), search.agent.scope)
    expect(await call()).toBe('glob-ok')
    undo()
    expect(await call()).toContain('all of them: ')
  })

  it('bounds what is stored of it by itself', async () => {
    const long = Array.from({ length: 100 }, (_, at) => `${at}/${'\u0001'.repeat(1_000)}`)
    const search = await open({}, { fileSearch: finding(long) })
    const { meta } = await search.call('glob', { pattern: '*' })
    expect(Buffer.byteLength(JSON.stringify(meta))).toBeLessThanOrEqual(65_536)
    const { paths, ...facts } = meta as { paths: string[] }
    expect(paths.length).toBeGreaterThan(1)
    expect(facts).toEqual({ shape: 'paths', truncated: true, total: 100 })
  })
})

describe('its cards', () => {
  it('come from the arguments, and from what is stored of the result', async () => {
    const search = await open({}, { fileSearch: finding(['a.ts']) })
    const tool = search.fixture.tools.get('glob')
    expect(tool?.presentCall?.({ pattern: '*.ts' })).toMatchObject({
      card: 'generic',
      kind: 'search',
      rawInput: '*.ts'
    })
    expect(tool?.presentCall?.({})).toBeUndefined()
    const { meta } = await search.call('glob', { pattern: '*.ts' })
    const card = (damage: object = {}, isError = false) =>
      resultCard(tool, '{"pattern":"*.ts"}', {
        content: [],
        isError,
        meta: { ...(meta as object), ...damage } as never
      })
    expect(card()).toEqual({ card: 'search', shape: 'paths', paths: ['a.ts'], truncated: false, total: 1 })
    expect(card({ paths: [], total: 0 })).toMatchObject({ paths: [], total: 0 })
    expect(card({}, true)).toBeUndefined()
    const damages = [{ paths: 7 }, { paths: [1] }, { total: -1 }, { total: 0 }, { truncated: 1 }, { shape: 'matches' }]
    for (const damage of damages) expect(card(damage)).toBeUndefined()
    for (const broken of [null, [], 'x']) {
      expect(tool?.presentResult?.({ pattern: '*' }, { content: [], isError: false, meta: broken })).toBeUndefined()
    }
    expect([tool?.timeoutMs, tool?.isConcurrencySafe, tool?.idempotent]).toEqual([30_000, undefined, true])
  })
})
