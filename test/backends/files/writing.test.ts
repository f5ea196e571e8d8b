import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { changeFile } from '../../../server/backends/files/change-file.ts'
import type { ChangeGuard, ChangeOptions, FileError, TextEdit } from '../../../server/backends/files/files.ts'
import { LocalFiles, type LocalFilesOptions } from '../../../server/backends/files/local-files.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'
import { until } from '../../helpers/until.ts'

const isRoot = process.getuid?.() === 0
/** Somebody without rights here. */
const NOBODY = 65_534

function open(options: Partial<LocalFilesOptions> = {}) {
  const base = temporaryDirectory()
  const cwd = join(base, 'root')
  mkdirSync(cwd)
  const files = new LocalFiles({ dataDirectory: join(base, 'data'), ...options })
  const resolve = (path: string) => files.resolve(path, { cwd })
  const write = async (path: string, content: string, more?: ChangeOptions) =>
    files.writeText(await resolve(path), content, more)
  const edit = async (path: string, change: TextEdit, more?: ChangeOptions) =>
    files.editText(await resolve(path), change, more)
  const version = async (path: string) => (await files.facts(await resolve(path))).version
  const put = (path: string, content: string | Uint8Array) => writeFileSync(join(cwd, path), content)
  const get = (path: string) => readFileSync(join(cwd, path), 'utf8')
  return { base, cwd, files, resolve, write, edit, version, put, get }
}

const guard = (of: ChangeGuard): ChangeOptions => ({ guard: () => of })
const ifAbsent = guard({ kind: 'createIfAbsent' })
const ifVersion = (version: string) => guard({ kind: 'replaceIfVersion', version })
const codeOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'done',
    (error: FileError) => error.code
  )
const mode = (path: string) => (statSync(path).mode & 0o7777).toString(8)
const names = (directory: string) => readdirSync(directory).sort()

describe('writeText', () => {
  it('C47 creates a private file and the directories it needs', async () => {
    const { cwd, write, version } = open()
    const made = await write('a/b/c/f', 'x\r\ny\n', ifAbsent)
    expect(made).toEqual({ operation: 'create', before: null, after: 'x\ny\n', version: await version('a/b/c/f') })
    expect(readFileSync(join(cwd, 'a/b/c/f'), 'utf8')).toBe('x\r\ny\n')
    expect([mode(join(cwd, 'a/b/c/f')), names(join(cwd, 'a/b/c'))]).toEqual(['600', ['f']])
    expect(await write('empty', '')).toMatchObject({ operation: 'create', after: '' })
  })

  it('C48 replaces a file, and keeps its mode', async () => {
    const { cwd, put, write, version } = open()
    put('f', 'old\r\n')
    for (const bits of [0o640, 0o755, 0o666]) {
      chmodSync(join(cwd, 'f'), bits)
      const before = statSync(join(cwd, 'f')).ino
      const made = await write('f', 'old\r\n', ifVersion(await version('f')))
      expect(made).toEqual({ operation: 'update', before: 'old\n', after: 'old\n', version: await version('f') })
      expect(mode(join(cwd, 'f'))).toBe(bits.toString(8))
      expect(statSync(join(cwd, 'f')).ino, 'another file took the place').not.toBe(before)
    }
    expect(names(cwd)).toEqual(['f'])
  })

  it('holds to its guard', async () => {
    const { cwd, put, get, write, version } = open()
    put('f', 'old')
    const old = await version('f')
    expect(await codeOf(write('f', 'new', ifAbsent))).toBe('FS_NOT_OBSERVED')
    appendFileSync(join(cwd, 'f'), '!')
    expect(await codeOf(write('f', 'new', ifVersion(old)))).toBe('FS_STALE_VERSION')
    expect(await codeOf(write('missing', 'new', ifVersion(old)))).toBe('FS_STALE_VERSION')
    expect(await codeOf(write('no/directory', 'new', ifVersion(old)))).toBe('FS_STALE_VERSION')
    const refusal = {
      guard: () => {
        throw new Error('refused')
      }
    }
    await expect(write('f', 'new', refusal)).rejects.toThrow('refused')
    expect([get('f'), names(cwd)]).toEqual(['old!', ['f']])
    expect(await write('f', 'new')).toMatchObject({ operation: 'update', before: 'old!' })
  })

  it('gives a version that holds until the next change', async () => {
    const { cwd, write } = open()
    let { version } = await write('f', '0', ifAbsent)
    for (const content of ['1', '2', '3']) version = (await write('f', content, ifVersion(version))).version
    writeFileSync(join(cwd, 'f'), 'more')
    expect(await codeOf(write('f', '4', ifVersion(version)))).toBe('FS_STALE_VERSION')
  })

  it('does not say what was before when that was no text, or large', async () => {
    const { put, write } = open()
    const big = 10 * 1024 * 1024
    const before = async (old: string | Uint8Array, content = 'x') => {
      put('f', old)
      return (await write('f', content)).before
    }
    expect(await before(Buffer.from([0x61, 0xff]))).toBeNull()
    expect(await before('a\0b')).toBeNull()
    expect(await before(`${'a'.repeat(9000)}\0`)).not.toBeNull()
    expect(await before('a'.repeat(big))).toBeNull()
    expect(await before('a'.repeat(big - 1))).toHaveLength(big - 1)
    expect(await before('old', 'é'.repeat(big / 2))).toBeNull()
    expect(await before('old', 'a'.repeat(big - 1))).toBe('old')
  })

  it('lets one of many creators win, whichever server they belong to', async () => {
    const { cwd, base, files, resolve, get } = open()
    const others = new LocalFiles({ dataDirectory: join(base, 'data') })
    const target = await resolve('deep/f')
    const outcomes = await Promise.all(
      Array.from({ length: 30 }, (_, at) =>
        codeOf((at % 2 === 0 ? files : others).writeText(target, `content ${at}`, ifAbsent))
      )
    )
    expect(outcomes.filter((code) => code === 'done')).toHaveLength(1)
    expect(new Set(outcomes)).toEqual(new Set(['done', 'FS_NOT_OBSERVED']))
    expect(get('deep/f')).toBe(`content ${outcomes.indexOf('done')}`)
    expect(names(join(cwd, 'deep'))).toEqual(['f'])
  })

  it('is never seen half done', async () => {
    const { cwd, write, put } = open()
    const [a, b] = ['a'.repeat(200_000), 'b'.repeat(200_000)]
    put('f', a)
    let isDone = false
    const seen = new Set<string>()
    const reading = (async () => {
      while (!isDone) {
        const text = readFileSync(join(cwd, 'f'), 'utf8')
        seen.add(text === a ? 'a' : text === b ? 'b' : `${text.length}`)
        await new Promise((resolve) => setImmediate(resolve))
      }
    })()
    for (let turn = 0; turn < 10; turn++) await write('f', turn % 2 === 0 ? b : a)
    isDone = true
    await reading
    expect([...seen].sort()).toEqual(['a', 'b'])
  })

  it('refuses half a surrogate pair, which would be stored as something else', async () => {
    const { cwd, put, get, write, edit } = open()
    expect(await codeOf(write('f', 'a\ud83d'))).toBe('FS_NOT_TEXT')
    expect(names(cwd)).toEqual([])
    put('f', 'a 😀')
    expect(await codeOf(edit('f', { replace: '\ud83d', with: 'x' }))).toBe('FS_NOT_TEXT')
    expect(get('f')).toBe('a 😀')
    await write('f', '😀')
    expect(get('f')).toBe('😀')
  })
})

describe('editText', () => {
  it('says that the file is stale before it says anything of the text', async () => {
    const { cwd, put, edit, version, get } = open()
    put('f', 'a a')
    const old = await version('f')
    appendFileSync(join(cwd, 'f'), ' a')
    for (const replace of ['a', 'missing']) {
      expect(await codeOf(edit('f', { replace, with: 'x' }, ifVersion(old)))).toBe('FS_STALE_VERSION')
    }
    expect(await codeOf(edit('missing', { replace: 'a', with: 'x' }))).toBe('FS_STALE_VERSION')
    expect(await codeOf(edit('no/directory', { replace: 'a', with: 'x' }))).toBe('FS_STALE_VERSION')
    expect(await codeOf(edit('f', { replace: 'a', with: 'x' }))).toBe('FS_AMBIGUOUS_EDIT')
    expect(await codeOf(edit('f', { replace: 'b', with: 'x' }))).toBe('FS_EDIT_NOT_FOUND')
    expect([get('f'), names(cwd)]).toEqual(['a a a', ['f']])
  })

  it('keeps every byte around the change', async () => {
    const { put, get, edit } = open()
    put('f', '\ufeffa\r\nb\nc\rd\r\n')
    expect(await edit('f', { replace: 'b', with: 'x\ny' })).toMatchObject({
      before: '\ufeffa\nb\nc\rd\n',
      after: '\ufeffa\nx\ny\nc\rd\n'
    })
    expect(get('f')).toBe('\ufeffa\r\nx\r\ny\nc\rd\r\n')
  })

  it('is for text: a NUL anywhere and invalid UTF-8 are refused', async () => {
    const { put, edit } = open()
    put('nul', `a${'b'.repeat(20_000)}\0`)
    put('bad', Buffer.from([0x61, 0xc3, 0x28]))
    expect(await codeOf(edit('nul', { replace: 'a', with: 'x' }))).toBe('FS_NOT_TEXT')
    expect(await codeOf(edit('bad', { replace: 'a', with: 'x' }))).toBe('FS_NOT_TEXT')
  })

  it('takes large files, up to a limit', async () => {
    const { put, cwd, edit } = open()
    put('f', `@${'a'.repeat(10 * 1024 * 1024)}`)
    const { before, after } = await edit('f', { replace: '@', with: '#' })
    expect([before, after.length, after[0]]).toEqual([null, 10 * 1024 * 1024 + 1, '#'])
    put('huge', '')
    truncateSync(join(cwd, 'huge'), 17 * 1024 * 1024)
    expect(await codeOf(edit('huge', { replace: 'a', with: 'b' }))).toBe('FS_TOO_LARGE')
  })

  it('C59 makes the changes of a file one after the other, and loses none', async () => {
    const { cwd, files, resolve, get } = open()
    const count = 60
    writeFileSync(join(cwd, 'f'), Array.from({ length: count }, (_, at) => `<${at}>\n`).join(''))
    symlinkSync('f', join(cwd, 'alias'))
    const targets = await Promise.all([resolve('f'), resolve('alias')])
    const order: number[] = []
    await Promise.all(
      Array.from({ length: count }, (_, at) =>
        files.editText(targets[at % 2]!, { replace: `<${at}>`, with: `[${at}]` }, { onChanged: () => order.push(at) })
      )
    )
    expect(get('f')).toBe(Array.from({ length: count }, (_, at) => `[${at}]\n`).join(''))
    expect(order).toEqual(Array.from({ length: count }, (_, at) => at))
    expect(names(cwd)).toEqual(['alias', 'f'])
    expect(lstatSync(join(cwd, 'alias')).isSymbolicLink()).toBe(true)
  })

  it('notices a change that another process makes between its look and its write', async () => {
    const { cwd, put, resolve, get } = open()
    put('f', 'old')
    const change = changeFile(
      await resolve('f'),
      {
        needsPrior: true,
        make: async () => {
          appendFileSync(join(cwd, 'f'), ' and new')
          return { text: 'mine', result: {} }
        }
      },
      {}
    )
    expect(await codeOf(change)).toBe('FS_STALE_VERSION')
    expect([get('f'), names(cwd)]).toEqual(['old and new', ['f']])
  })
})

describe('targets', () => {
  it('are regular files only, and nothing else is so much as opened', async () => {
    const { cwd, write, edit, put } = open()
    mkdirSync(join(cwd, 'directory'))
    execFileSync('mkfifo', [join(cwd, 'fifo')])
    put('file', '')
    symlinkSync('fifo', join(cwd, 'link'))
    for (const path of ['directory', 'fifo', 'link', '.', '/']) {
      for (const options of [undefined, ifAbsent, ifVersion('1:2:3:4:5')]) {
        expect([path, await codeOf(write(path, 'x', options))]).toEqual([path, 'FS_NOT_REGULAR_FILE'])
      }
      expect(await codeOf(edit(path, { replace: 'a', with: 'b' }))).toBe('FS_NOT_REGULAR_FILE')
    }
    expect(await codeOf(write('file/below', 'x'))).toBe('FS_NOT_FOUND')
    expect(names(cwd)).toEqual(['directory', 'fifo', 'file', 'link'])
  })

  it.each(['', ' ', 'a\0b', 'x'.repeat(300), `${'x/'.repeat(2200)}x`])('have names that can be: %#', async (path) => {
    const { cwd, write } = open()
    expect(await codeOf(write(path, 'x'))).toBe('FS_NOT_FOUND')
    expect(names(cwd)).toEqual([])
  })

  it('may have odd names', async () => {
    const { cwd, write, get } = open()
    const odd = ['new\nline', '-rf', 'caf\u00e9', 'cafe\u0301', '..x', 'x'.repeat(255), '😀 $(id)']
    for (const name of odd) await write(name, name, ifAbsent)
    expect(names(cwd)).toEqual(odd.toSorted())
    expect(odd.map(get)).toEqual(odd)
  })

  it('C54 are what links lead to; the links stay, also those to nothing yet', async () => {
    const { cwd, write, get } = open()
    mkdirSync(join(cwd, 'dir'))
    symlinkSync('dir/new', join(cwd, 'link'))
    expect((await write('link', 'one', ifAbsent)).operation).toBe('create')
    expect((await write('link', 'two')).operation).toBe('update')
    expect([get('dir/new'), lstatSync(join(cwd, 'link')).isSymbolicLink()]).toEqual(['two', true])
  })

  it('are replaced under one name: a hard link keeps the old file', async () => {
    const { cwd, put, write, get } = open()
    put('f', 'old')
    linkSync(join(cwd, 'f'), join(cwd, 'other'))
    await write('f', 'new')
    expect([get('f'), get('other')]).toEqual(['new', 'old'])
  })
})

describe('rights', () => {
  /** Runs as somebody without rights; the whole process, so nothing else may run meanwhile. */
  async function asNobody<T>(work: () => Promise<T>): Promise<T> {
    if (!isRoot) return work()
    process.setegid!(NOBODY)
    process.seteuid!(NOBODY)
    try {
      return await work()
    } finally {
      process.seteuid!(0)
      process.setegid!(0)
    }
  }

  /** A directory of that user's own. */
  function openAsNobody() {
    const opened = open()
    chmodSync(opened.base, 0o755)
    if (isRoot) chownSync(opened.cwd, NOBODY, NOBODY)
    return opened
  }

  it('are those of the directory and of the file', async () => {
    const { cwd, write, get, put } = openAsNobody()
    for (const name of ['hidden', 'open']) {
      put(name, 'old')
      if (isRoot) chownSync(join(cwd, name), NOBODY, NOBODY)
    }
    chmodSync(join(cwd, 'hidden'), 0o000)
    mkdirSync(join(cwd, 'closed'))
    writeFileSync(join(cwd, 'closed/f'), 'old')
    chmodSync(join(cwd, 'closed'), 0o555)
    const outcomes = await asNobody(async () => [
      await codeOf(write('hidden', 'new')),
      await codeOf(write('closed/f', 'new')),
      await codeOf(write('closed/new', 'new')),
      await codeOf(write('closed/new/deep', 'new')),
      await codeOf(write('open', 'new')),
      await codeOf(write('made/here', 'new'))
    ])
    const denied = Array.from({ length: 4 }, () => 'FS_PERMISSION_DENIED')
    expect(outcomes).toEqual([...denied, 'done', 'done'])
    expect([get('closed/f'), get('open')]).toEqual(['old', 'new'])
    expect([names(cwd), names(join(cwd, 'closed'))]).toEqual([['closed', 'hidden', 'made', 'open'], ['f']])
    chmodSync(join(cwd, 'closed'), 0o755)
  })

  it('a file that is closed to writing stays, although renaming would not mind', () => {
    const { base, cwd, put, get } = openAsNobody()
    put('f', 'old')
    chmodSync(join(cwd, 'f'), 0o444)
    const module = new URL('../../../server/backends/files/local-files.ts', import.meta.url).href
    // The check asks for the rights of the real user, so it takes a process of that user's.
    const output = execFileSync(
      process.execPath,
      [
        '--import',
        'tsx',
        '--input-type=module',
        '-e',
        `const { LocalFiles } = await import(${JSON.stringify(module)})
         const files = new LocalFiles({ dataDirectory: ${JSON.stringify(join(base, 'data'))} })
         const target = await files.resolve('f', { cwd: ${JSON.stringify(cwd)} })
         const work = [() => files.writeText(target, 'new'), () => files.editText(target, { replace: 'old', with: 'new' })]
         for (const run of work) console.log(await run().then(() => 'done', (error) => error.code))`
      ],
      { encoding: 'utf8', env: { ...process.env, TMPDIR: cwd }, ...(isRoot && { uid: NOBODY, gid: NOBODY }) }
    )
    expect([output, get('f')]).toEqual(['FS_PERMISSION_DENIED\nFS_PERMISSION_DENIED\n', 'old'])
  })

  it.runIf(isRoot)('a server that runs as root leaves files to their owners', async () => {
    const { cwd, write, put } = open()
    const owner = (path: string) => [statSync(join(cwd, path)).uid, statSync(join(cwd, path)).gid]
    put('own', 'x')
    put('theirs', 'x')
    chownSync(join(cwd, 'theirs'), 1234, 1235)
    chmodSync(join(cwd, 'theirs'), 0o4750)
    await write('own', 'y')
    await write('theirs', 'y')
    expect([owner('own'), owner('theirs'), mode(join(cwd, 'theirs'))]).toEqual([[0, 0], [1234, 1235], '4750'])
    // Commands that run as the directory's owner must be able to read what was made for them.
    mkdirSync(join(cwd, 'workspace'))
    chownSync(join(cwd, 'workspace'), 1234, 1235)
    await write('workspace/deep/er/f', 'x', ifAbsent)
    expect(['workspace/deep', 'workspace/deep/er', 'workspace/deep/er/f'].map(owner)).toEqual(
      Array.from({ length: 3 }, () => [1234, 1235])
    )
  })

  it.runIf(isRoot)('loses no special bit to another owner', async () => {
    const { cwd, write, put } = openAsNobody()
    put('f', 'x')
    chmodSync(join(cwd, 'f'), 0o4777)
    expect(await asNobody(() => codeOf(write('f', 'y')))).toBe('done')
    expect([statSync(join(cwd, 'f')).uid, mode(join(cwd, 'f'))]).toEqual([NOBODY, '777'])
  })

  it.runIf(isRoot)('an immutable file stays', async () => {
    const { cwd, put, write, get } = open()
    put('f', 'old')
    try {
      execFileSync('chattr', ['+i', join(cwd, 'f')], { stdio: 'ignore' })
    } catch {
      return // A file system without such flags.
    }
    try {
      expect(await codeOf(write('f', 'new'))).toBe('FS_PERMISSION_DENIED')
      expect([get('f'), names(cwd)]).toEqual(['old', ['f']])
    } finally {
      execFileSync('chattr', ['-i', join(cwd, 'f')])
    }
  })
})

describe.runIf(isRoot)('disks', () => {
  /** A disk of its own, of 1 MiB. */
  function mounted(cwd: string): string {
    const disk = join(cwd, 'disk')
    mkdirSync(disk)
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', disk])
    onTestFinished(() => void execFileSync('umount', [disk]))
    return disk
  }

  it('that are full leave the old file and nothing else, and may have room again', async () => {
    const { cwd, write, get } = open()
    const disk = mounted(cwd)
    await write('disk/f', 'old')
    await expect(write('disk/f', 'x'.repeat(2_000_000))).rejects.toMatchObject({
      code: 'FS_IO_ERROR',
      message: `${disk}/f: the disk is full`
    })
    expect(await codeOf(write('disk/new', 'x'.repeat(2_000_000), ifAbsent))).toBe('FS_IO_ERROR')
    expect([get('disk/f'), names(disk)]).toEqual(['old', ['f']])
    expect(await codeOf(write('disk/f', 'new'))).toBe('done')
  })

  it('that are read-only are closed to writing', async () => {
    const { cwd, write, get } = open()
    const disk = mounted(cwd)
    await write('disk/f', 'old')
    execFileSync('mount', ['-o', 'remount,ro', disk])
    expect(await codeOf(write('disk/f', 'new'))).toBe('FS_PERMISSION_DENIED')
    expect(await codeOf(write('disk/new', 'new'))).toBe('FS_PERMISSION_DENIED')
    expect(get('disk/f')).toBe('old')
  })
})

describe('abort', () => {
  it('in the middle of a write leaves the old file and nothing else', async () => {
    const { cwd, put, get, write } = open()
    put('f', 'old')
    const content = 'x'.repeat(60_000_000)
    const controller = new AbortController()
    let isOver = false
    const writing = codeOf(write('f', content, { signal: controller.signal })).finally(() => (isOver = true))
    // As often as the loop turns, which it does between the pieces of the file.
    while (!isOver && names(cwd).length === 1) await new Promise((resolve) => setImmediate(resolve))
    controller.abort('enough')
    expect(await writing).toBe('FS_ABORTED')
    expect([get('f'), names(cwd)]).toEqual(['old', ['f']])
  })

  it('before its turn does nothing, and does not hold up the next', async () => {
    const { put, get, write, files, resolve } = open()
    put('f', 'old')
    const controller = new AbortController()
    const target = await resolve('f')
    const outcomes = Promise.all([
      codeOf(files.writeText(target, 'one')),
      codeOf(files.writeText(target, 'two', { signal: controller.signal })),
      codeOf(files.editText(target, { replace: 'one', with: 'three' }))
    ])
    controller.abort()
    expect(await outcomes).toEqual(['done', 'FS_ABORTED', 'done'])
    expect(get('f')).toBe('three')
    expect(await codeOf(write('f', 'x', { signal: AbortSignal.abort('any reason') }))).toBe('FS_ABORTED')
  })

  it('at any moment means done or not done', async () => {
    const { cwd, files, resolve, put, get } = open()
    put('f', 'x'.repeat(100_000))
    const target = await resolve('f')
    const outcomes = new Set<string>()
    for (let delay = 0; delay < 60; delay++) {
      const controller = new AbortController()
      const content = `${delay}`
      const writing = codeOf(files.writeText(target, content, { signal: controller.signal }))
      for (let turn = 0; turn < delay; turn++) await new Promise((resolve) => setImmediate(resolve))
      controller.abort()
      const outcome = await writing
      outcomes.add(outcome)
      expect(get('f') === content).toBe(outcome === 'done')
      expect(names(cwd)).toEqual(['f'])
    }
    expect([...outcomes]).toContain('FS_ABORTED')
  })
})

describe('directories that were made for a file', () => {
  it('are gone when it comes to nothing, those that were there are not', async () => {
    const { cwd, write } = open()
    mkdirSync(join(cwd, 'there/empty'), { recursive: true })
    const late = new AbortController()
    const aborting: ChangeOptions = {
      signal: late.signal,
      guard: () => {
        late.abort()
        return { kind: 'createIfAbsent' }
      }
    }
    expect(await codeOf(write('there/a/b/c/f', 'x', aborting))).toBe('FS_ABORTED')
    expect(await codeOf(write('there/a/b/f', '\ud83d'))).toBe('FS_NOT_TEXT')
    expect(await codeOf(write(`a/b/${'n'.repeat(300)}/f`, 'x'))).toBe('FS_NOT_FOUND')
    expect(await codeOf(write(`a/b/${'n'.repeat(300)}`, 'x'))).toBe('FS_NOT_FOUND')
    expect(await codeOf(write('there/empty/f', '\ud83d'))).toBe('FS_NOT_TEXT')
    expect([names(cwd), names(join(cwd, 'there')), names(join(cwd, 'there/empty'))]).toEqual([['there'], ['empty'], []])
  })

  it('stay when somebody else has come to use them', async () => {
    const { cwd, resolve, files, write, get } = open()
    const put = async () => {
      writeFileSync(join(cwd, 'a/mine'), '')
      return Promise.reject(new Error('no'))
    }
    await expect(changeFile(await resolve('a/b/f'), { needsPrior: false, make: put }, {})).rejects.toThrow('no')
    expect([names(cwd), names(join(cwd, 'a'))]).toEqual([['a'], ['mine']])
    for (let round = 0; round < 30; round++) {
      const [failing, target] = [await resolve(`r${round}/sub/f`), await resolve(`r${round}/sub/g`)]
      const outcomes = Promise.all([codeOf(files.writeText(failing, '\ud83d')), codeOf(files.writeText(target, 'x'))])
      expect(await outcomes).toEqual(['FS_NOT_TEXT', 'done'])
      expect(get(`r${round}/sub/g`)).toBe('x')
    }
    expect(await codeOf(write('a/b/f', 'x'))).toBe('done')
  })

  it('S11 are not looked for where a link leads by then', async () => {
    const { base, cwd, resolve } = open()
    mkdirSync(join(base, 'outside/made'), { recursive: true })
    mkdirSync(join(cwd, 'dir'))
    const make = () => {
      renameSync(join(cwd, 'dir'), join(cwd, 'real'))
      symlinkSync(join(base, 'outside'), join(cwd, 'dir'))
      return Promise.reject(new Error('no'))
    }
    await expect(changeFile(await resolve('dir/made/f'), { needsPrior: false, make }, {})).rejects.toThrow('no')
    expect([names(join(base, 'outside')), names(join(cwd, 'real'))]).toEqual([['made'], []])
  })
})

describe('fences', () => {
  it('keep changes from what may not be read: a change answers with what was before', async () => {
    const { base, cwd, write, edit } = open()
    mkdirSync(join(base, 'data'))
    writeFileSync(join(base, 'data/secret'), 'x')
    symlinkSync(join(base, 'data'), join(cwd, 'link'))
    for (const path of [
      '../data/secret',
      '../data/new',
      'link/secret',
      'link/deep/new',
      '/proc/self/comm',
      '/dev/new'
    ]) {
      expect([path, await codeOf(write(path, 'y'))]).toEqual([path, 'FS_PERMISSION_DENIED'])
      expect(await codeOf(edit(path, { replace: 'x', with: 'y' }))).toBe('FS_PERMISSION_DENIED')
    }
    expect([names(join(base, 'data')), readFileSync(join(base, 'data/secret'), 'utf8')]).toEqual([['secret'], 'x'])
  })

  it('C78 ask whether a canonical path may be changed, for whom, before anything is made', async () => {
    const asked: [string, object | undefined][] = []
    const agent = { id: 'A' }
    const { base, cwd, write, edit } = open({
      mayWrite: async (path, by) => {
        asked.push([path, by])
        return path.startsWith(`${cwd}/`) || 'workspace-write'
      }
    })
    mkdirSync(join(base, 'outside'))
    symlinkSync('../outside', join(cwd, 'link'))
    expect(await codeOf(write('inside', 'x', { agent }))).toBe('done')
    await expect(write('link/deep/f', 'x', { agent })).rejects.toMatchObject({
      code: 'FS_SANDBOX_DENIED',
      message: expect.stringMatching(/\n\[sandbox: file access denied under workspace-write mode\]$/)
    })
    writeFileSync(join(base, 'outside/f'), 'x')
    expect(await codeOf(edit('link/f', { replace: 'x', with: 'y' }))).toBe('FS_SANDBOX_DENIED')
    expect(asked).toEqual([
      [join(cwd, 'inside'), agent],
      [join(base, 'outside/deep/f'), agent],
      [join(base, 'outside/f'), undefined]
    ])
    expect([names(join(base, 'outside')), readFileSync(join(base, 'outside/f'), 'utf8')]).toEqual([['f'], 'x'])
  })

  /** Puts a link to the outside in the place of a directory, and takes it back. */
  function swap(base: string, cwd: string) {
    mkdirSync(join(base, 'outside'))
    return {
      out: () => {
        renameSync(join(cwd, 'dir'), join(cwd, 'real'))
        symlinkSync(join(base, 'outside'), join(cwd, 'dir'))
      },
      back: () => {
        unlinkSync(join(cwd, 'dir'))
        renameSync(join(cwd, 'real'), join(cwd, 'dir'))
      }
    }
  }

  it('S11 are not got around by a link that takes the place of a directory after the check', async () => {
    const { base, cwd, files, resolve } = open({
      mayWrite: (path) => {
        swapped.out()
        return path.startsWith(`${cwd}/`) || 'workspace-write'
      }
    })
    const swapped = swap(base, cwd)
    mkdirSync(join(cwd, 'dir/sub'), { recursive: true })
    mkdirSync(join(base, 'outside/sub'))
    writeFileSync(join(base, 'outside/f'), 'x')
    writeFileSync(join(base, 'outside/sub/f'), 'x')
    for (const path of ['dir/f', 'dir/new', 'dir/deep/new', 'dir/sub/f', 'dir/sub/new', 'dir/sub/deep/new']) {
      const target = await resolve(path)
      expect(await codeOf(files.writeText(target, 'evil'))).not.toBe('done')
      swapped.back()
      expect(await codeOf(files.editText(target, { replace: 'x', with: 'evil' }))).not.toBe('done')
      swapped.back()
    }
    expect([names(join(base, 'outside')), names(join(base, 'outside/sub'))]).toEqual([['f', 'sub'], ['f']])
    expect(['f', 'sub/f'].map((path) => readFileSync(join(base, 'outside', path), 'utf8'))).toEqual(['x', 'x'])
  })

  it('S11 are not got around while the file is being written', async () => {
    const { base, cwd, resolve } = open()
    const swapped = swap(base, cwd)
    mkdirSync(join(cwd, 'dir'))
    writeFileSync(join(cwd, 'dir/f'), 'old')
    await changeFile(
      await resolve('dir/f'),
      {
        needsPrior: true,
        make: async () => {
          swapped.out()
          return { text: 'new', result: {} }
        }
      },
      {}
    )
    expect(names(join(base, 'outside'))).toEqual([])
    expect(readFileSync(join(cwd, 'real/f'), 'utf8')).toBe('new')
  })

  it('S11 hold against a process that swaps everything it can, the private directory too', async () => {
    const { base, cwd, files, resolve } = open()
    mkdirSync(join(base, 'outside'))
    mkdirSync(join(cwd, 'dir'))
    const targets = await Promise.all(['dir/f', 'dir/deep/f'].map(resolve))
    const hostile = spawn(
      process.execPath,
      [
        '-e',
        `const fs = require('node:fs'); const [dir, outside] = process.argv.slice(1); const own = new Set()
         fs.writeFileSync(dir + '/../started', '')
         for (;;) {
           const attempt = (work) => { try { work() } catch {} }
           for (const name of fs.readdirSync(dir)) {
             if (own.has(name)) continue
             const path = dir + '/' + name
             own.add(name + '.moved')
             attempt(() => { fs.renameSync(path, path + '.moved'); fs.symlinkSync(outside + (name === 'f' ? '/f' : ''), path) })
             if (!name.startsWith('.')) attempt(() => fs.unlinkSync(path))
           }
         }`,
        join(cwd, 'dir'),
        join(base, 'outside')
      ],
      { stdio: 'ignore' }
    )
    onTestFinished(() => void hostile.kill('SIGKILL'))
    await until(() => existsSync(join(cwd, 'started')))
    const outcomes = new Set<string>()
    // Tells of what was made there and taken away again.
    const { mtimeMs } = statSync(join(base, 'outside'))
    // Until it did get in the way.
    for (let turn = 0; turn < 40 || (outcomes.size < 2 && turn < 1000); turn++) {
      outcomes.add(await codeOf(files.writeText(targets[turn % 2]!, 'evil')))
      expect(statSync(join(base, 'outside')).mtimeMs).toBe(mtimeMs)
    }
    expect([...outcomes].some((code) => code !== 'done')).toBe(true)
    hostile.kill('SIGKILL')
    await once(hostile, 'exit')
  })
})

describe('listDir', () => {
  it('lists one level by name, and opens nothing', async () => {
    const { cwd, files, resolve, put } = open()
    put('b', '')
    put('.hidden', '')
    mkdirSync(join(cwd, 'a'))
    put('a/inside', '')
    symlinkSync('/dev/zero', join(cwd, 'link'))
    execFileSync('mkfifo', [join(cwd, 'fifo')])
    expect(await files.listDir(await resolve('.'))).toEqual([
      { name: '.hidden', kind: 'file' },
      { name: 'a', kind: 'directory' },
      { name: 'b', kind: 'file' },
      { name: 'fifo', kind: 'other' },
      { name: 'link', kind: 'other' }
    ])
    const list = async (path: string) => codeOf(files.listDir(await resolve(path)))
    expect(await Promise.all(['b', 'fifo', 'missing', '/proc', '/dev'].map(list))).toEqual([
      'FS_NOT_DIRECTORY',
      'FS_NOT_DIRECTORY',
      'FS_NOT_FOUND',
      'FS_PERMISSION_DENIED',
      'FS_PERMISSION_DENIED'
    ])
  })
})
