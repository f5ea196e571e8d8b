import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { Ripgrep } from '../../../server/backends/search/ripgrep.ts'
import { ByteRecords } from '../../../server/backends/search/ripgrep-output.ts'
import { ManagedTrees } from '../../../server/backends/subprocess/managed-trees.ts'
import { processesWith, uniqueSleep } from '../../helpers/processes.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'
import { until } from '../../helpers/until.ts'

const trees = new ManagedTrees({ dataDirectory: import.meta.dirname })
afterAll(() => trees.dispose())

const NON_UTF8 = Buffer.from([0x66, 0x6f, 0x6f, 0xff])

function open({ maxRawOutputBytes = 20_000_000, program }: { maxRawOutputBytes?: number; program?: string } = {}) {
  const cwd = temporaryDirectory()
  const search = new Ripgrep(trees, {
    maxRawOutputBytes,
    ...(program !== undefined && { program: async () => program })
  })
  const place = (more: { root?: string; signal?: AbortSignal } = {}) => ({
    cwd,
    root: cwd,
    signal: new AbortController().signal,
    ...more
  })
  const write = (name: string, content: string | Uint8Array = 'foo\n') => {
    mkdirSync(join(cwd, name, '..'), { recursive: true })
    writeFileSync(join(cwd, name), content)
  }
  const names = (paths: readonly string[]) => paths.map((path) => path.slice(cwd.length + 1))
  const files = async (glob: string, more?: { root?: string }) => names(await search.files(glob, place(more)))
  const lines = async (pattern: string, more: { root?: string; include?: string } = {}) =>
    (await search.matches(pattern, { ...place(), ...more })).map(
      ({ path, lineNumber, line }) => `${names([path])[0]}:${lineNumber}:${line}`
    )
  return { cwd, search, place, write, files, lines }
}

/** A program that stands in for ripgrep where it is to misbehave. */
function script(body: string): string {
  const path = join(temporaryDirectory(), 'rg')
  writeFileSync(path, `#!/bin/sh\n${body}\n`)
  chmodSync(path, 0o755)
  return path
}

describe('files', () => {
  it('C60 finds nested, hidden and ignored files, oldest change first, and nothing of version control', async () => {
    const { cwd, write, files } = open()
    const inOrder = ['deep/er/c.ts', '.hidden/b.ts', 'ignored.ts', 'a.ts']
    for (const [at, name] of inOrder.entries()) {
      write(name)
      utimesSync(join(cwd, name), 1_000 + at, 1_000 + at)
    }
    write('.gitignore', 'ignored.ts\n')
    write('.git/x.ts')
    write('sub/.jj/y.ts')
    mkdirSync(join(cwd, 'directory.ts'))
    symlinkSync('.', join(cwd, 'loop'))
    expect(await files('*.ts')).toEqual(inOrder)
    expect(await files('deep/*.ts')).toEqual([])
    expect(await files('deep/**/*.ts')).toEqual(['deep/er/c.ts'])
    expect(await files('nothing*')).toEqual([])
    // A pattern that names them does not bring them back.
    expect(await files('.git/**')).toEqual([])
  })

  it('C66 takes hostile patterns literally', async () => {
    const { cwd, write, files } = open()
    for (const name of ['-e', '#x', 'space ', 'a\nb', '--pre=touch pwn']) write(name)
    expect(await files('-e')).toEqual(['-e'])
    expect(await files('--pre=*')).toEqual(['--pre=touch pwn'])
    expect(await files('#x')).toEqual(['#x'])
    expect(await files('space ')).toEqual(['space '])
    expect(await files('a\nb')).toEqual(['a\nb'])
    expect(await files('$(touch pwn);*')).toEqual([])
    expect(readdirSync(cwd)).not.toContain('pwn')
  })

  it('shows what is not UTF-8 in a name', async () => {
    const { cwd, files } = open()
    execFileSync('sh', ['-c', `: > "$(printf 'bad\\377.ts')"`], { cwd })
    expect(await files('*.ts')).toEqual(['bad\uFFFD.ts'])
  })

  it('refuses globs that mean nothing, saying why', async () => {
    const { search, place } = open()
    const reasons = { '{a,b': /unclosed alternate group/, '[': /unclosed character class/, 'a\0b': /NUL/ }
    for (const [glob, message] of Object.entries(reasons)) {
      await expect(search.files(glob, place())).rejects.toMatchObject({
        code: 'SEARCH_INVALID_PATTERN',
        message: expect.stringMatching(message)
      })
    }
    await expect(search.files('x'.repeat(70_000), place())).rejects.toMatchObject({ code: 'SEARCH_INVALID_PATTERN' })
    // Twice as many words with each brace: none of them is ever written out.
    expect(await search.files('{a,b}'.repeat(60), place())).toEqual([])
  })

  it('searches directories only', async () => {
    const { cwd, search, place, write } = open()
    write('f')
    for (const root of ['f', 'f/x', 'missing']) {
      await expect(search.files('*', place({ root: join(cwd, root) }))).rejects.toMatchObject({ code: 'SEARCH_FAILED' })
    }
  })
})

describe('matches', () => {
  it('C62 gives lines by path and line, without their breaks', async () => {
    const { write, lines } = open()
    write('b.ts', 'x foo\r\nfoo y')
    write('a.ts', 'foo\nbar\nfoo\n')
    expect(await lines('foo')).toEqual(['a.ts:1:foo', 'a.ts:3:foo', 'b.ts:1:x foo', 'b.ts:2:foo y'])
    expect(await lines('nothing')).toEqual([])
    expect(await lines(' ')).toEqual(['b.ts:1:x foo', 'b.ts:2:foo y'])
  })

  it('C63 passes over hidden and ignored files; include brings ignored ones back, but none of hidden directories', async () => {
    const { write, lines } = open()
    write('.git/HEAD')
    write('.gitignore', 'ignored.ts\n')
    for (const name of ['a.ts', 'a.js', 'ignored.ts', '.dir/h.ts']) write(name)
    expect(await lines('foo')).toEqual(['a.js:1:foo', 'a.ts:1:foo'])
    expect(await lines('foo', { include: '*.ts' })).toEqual(['a.ts:1:foo', 'ignored.ts:1:foo'])
    expect(await lines('foo', { include: '*.{ts,js}' })).toHaveLength(3)
    expect(await lines('foo', { include: '#*' })).toEqual([])
  })

  it('C63 refuses patterns, and features that there are not, saying why and naming no option', async () => {
    const { search, place } = open()
    const reasons = {
      '(': /unclosed group/,
      'a(?=b)': /look-around/,
      '(a)\\1': /backreferences/,
      'a\nb': /not allowed/,
      '[z-a]': /class range/,
      'a\0b': /NUL/
    }
    for (const [pattern, message] of Object.entries(reasons)) {
      const error = await search.matches(pattern, place()).catch((thrown: unknown) => thrown)
      expect(error).toMatchObject({ code: 'SEARCH_INVALID_PATTERN', message: expect.stringMatching(message) })
      expect(String(error)).not.toMatch(/pcre2|--/i)
    }
  })

  it('C66 takes hostile patterns and paths literally', async () => {
    const { cwd, write, lines } = open()
    write('-x', 'a -e b\n$(touch pwn);*\n')
    expect(await lines('-e', { root: join(cwd, '-x') })).toEqual(['-x:1:a -e b'])
    expect(await lines('--files')).toEqual([])
    expect(await lines('\\$\\(touch pwn\\);\\*')).toEqual(['-x:2:$(touch pwn);*'])
    expect(await lines('foo', { include: '--pre=touch pwn' })).toEqual([])
    expect(readdirSync(cwd)).toEqual(['-x'])
  })

  it('tells lines that are not UTF-8 by a placeholder, and passes over binary files', async () => {
    const { write, lines } = open()
    write('binary', 'foo\0\nfoo\n')
    write('latin', Buffer.concat([NON_UTF8, Buffer.from('\nfoo\n')]))
    expect(await lines('foo')).toEqual(['latin:1:(this line is not valid UTF-8)', 'latin:2:foo'])
  })

  it('gives no part of a search that did not see everything', async () => {
    const { cwd, write, search, place } = open()
    write('a.ts')
    await expect(search.matches('foo', place({ root: join(cwd, 'missing') }))).rejects.toMatchObject({
      code: 'SEARCH_FAILED',
      message: expect.stringContaining('no such file')
    })
    execFileSync('mkfifo', [join(cwd, 'fifo')])
    await expect(search.matches('foo', place({ root: join(cwd, 'fifo') }))).rejects.toMatchObject({
      code: 'SEARCH_FAILED'
    })
  })

  it('holds 100,000 matches and a line of megabytes, and fails beyond its cap with nothing left running', async () => {
    const { write, search, place } = open({ maxRawOutputBytes: 40_000_000 })
    write('many', 'x\n'.repeat(100_000))
    write('wide', `y${'z'.repeat(4_000_000)}\n`)
    expect(await search.matches('x', place())).toHaveLength(100_000)
    expect((await search.matches('y', place()))[0]?.line).toHaveLength(4_000_001)
    const program = script(`echo $$ >&2; yes '{"type":"begin"}'`)
    const endless = open({ maxRawOutputBytes: 1_000_000, program })
    await expect(endless.search.matches('x', endless.place())).rejects.toMatchObject({
      code: 'SEARCH_RAW_OUTPUT_OVERFLOW'
    })
    await until(() => processesWith(program).length === 0)
  })
})

describe('a program that misbehaves', () => {
  it.each([
    ['is killed', `printf '{"type":"begin"}\\n'; kill -9 $$`, /SIGKILL/],
    ['writes what is no JSON', 'echo garbage', /makes no sense/],
    ['writes JSON of another kind', `echo '{"type":"match","data":{}}'`, /makes no sense/],
    ['stops within a message', `printf '{"type":'`, /ends in the middle/],
    ['found something and failed', `echo '{"type":"end"}'; echo vanished >&2; exit 2`, /exit code 2: vanished/]
  ])('fails the search: %s', async (_name, body, message) => {
    const { search, place } = open({ program: script(body) })
    await expect(search.matches('x', place())).rejects.toMatchObject({
      code: 'SEARCH_FAILED',
      message: expect.stringMatching(message)
    })
  })

  it('fails when it is not there', async () => {
    const { search, place } = open({ program: '/nowhere/rg' })
    await expect(search.matches('x', place())).rejects.toMatchObject({ code: 'SEARCH_FAILED' })
  })

  it('is ended with the call', async () => {
    const sleep = uniqueSleep()
    const { search, place } = open({ program: script(`sleep ${sleep}`) })
    const controller = new AbortController()
    const running = search.files('*', place({ signal: controller.signal }))
    await until(() => processesWith(`sleep ${sleep}`).length > 0)
    controller.abort()
    await expect(running).rejects.toMatchObject({ code: 'SEARCH_ABORTED' })
    await until(() => processesWith(`sleep ${sleep}`).length === 0)
    await expect(search.files('*', place({ signal: AbortSignal.abort() }))).rejects.toMatchObject({
      code: 'SEARCH_ABORTED'
    })
  })
})

it('cuts records at the same places, whatever the chunks are', () => {
  const whole = Buffer.from('ab\n\nc\nrest')
  for (let size = 1; size <= whole.length; size++) {
    const taken: string[] = []
    const records = new ByteRecords(10, 100, (record) => taken.push(record.toString()))
    for (let at = 0; at < whole.length; at += size) records.write(whole.subarray(at, at + size))
    expect([taken, records.hasRest]).toEqual([['ab', '', 'c'], true])
  }
})
