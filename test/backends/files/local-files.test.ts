import { execFileSync } from 'node:child_process'
import { appendFileSync, mkdirSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { ResolvedPath } from '../../../server/backends/files/files.ts'
import { LocalFiles, type LocalFilesOptions } from '../../../server/backends/files/local-files.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'

function open(options: Partial<LocalFilesOptions> = {}) {
  const base = temporaryDirectory()
  const cwd = join(base, 'root')
  mkdirSync(cwd)
  const files = new LocalFiles({ dataDirectory: join(base, 'data'), ...options })
  const read = async (path: string) => (await files.readText(await files.resolve(path, { cwd }))).text
  return { base, cwd, files, read }
}

describe('resolve', () => {
  it('gives all aliases of a file one key, before it exists and after', async () => {
    const { cwd, files } = open()
    mkdirSync(join(cwd, 'dir'))
    symlinkSync('dir', join(cwd, 'alias'))
    symlinkSync('dir/new', join(cwd, 'dangling'))
    symlinkSync('../dir/new', join(cwd, 'dir', 'up'))
    const keys = async () =>
      (
        await Promise.all(
          ['dir/new', 'alias/new', 'dangling', './dir/../dir/new', 'alias/up'].map((path) =>
            files.resolve(path, { cwd })
          )
        )
      ).map(({ targetKey }) => targetKey)
    const expected = Array.from({ length: 5 }, () => join(cwd, 'dir/new'))
    expect(await keys()).toEqual(expected)
    writeFileSync(join(cwd, 'dir/new'), '')
    expect(await keys()).toEqual(expected)
    expect((await files.resolve('alias/new', { cwd })).displayPath).toBe(join(cwd, 'alias/new'))
  })

  it.each(['', ' ', 'a\0b', 'file/below', 'loop/x', 'x'.repeat(300)])('finds nothing under %j', async (path) => {
    const { cwd, files } = open()
    writeFileSync(join(cwd, 'file'), '')
    symlinkSync('loop', join(cwd, 'loop'))
    const facts = async () => files.facts(await files.resolve(path, { cwd }))
    await expect(facts()).rejects.toMatchObject({ code: 'FS_NOT_FOUND', name: 'FileError' })
  })
})

describe('reading', () => {
  it('changes the version with every change', async () => {
    const { cwd, files } = open()
    writeFileSync(join(cwd, 'f'), 'a')
    const target = await files.resolve('f', { cwd })
    const first = await files.facts(target)
    expect(await files.readText(target)).toEqual({ ...first, text: 'a' })
    appendFileSync(join(cwd, 'f'), 'b')
    expect((await files.facts(target)).version).not.toBe(first.version)
  })

  it('decodes characters across its pieces and keeps a byte order mark', async () => {
    const { cwd, read } = open()
    const text = `\ufeff${'你好😀'.repeat(100_000)}`
    writeFileSync(join(cwd, 'f'), text)
    expect(await read('f')).toBe(text)
  })

  it('is binary for a NUL in the first 8192 bytes only', async () => {
    const { cwd, read } = open()
    writeFileSync(join(cwd, 'early'), `${'a'.repeat(8191)}\0`)
    writeFileSync(join(cwd, 'late'), `${'a'.repeat(8192)}\0`)
    await expect(read('early')).rejects.toMatchObject({ code: 'FS_NOT_TEXT' })
    expect(await read('late')).toHaveLength(8193)
  })

  it('reads bytes up to the cap', async () => {
    const { cwd, files } = open()
    writeFileSync(join(cwd, 'f'), '12345')
    const target = await files.resolve('f', { cwd })
    expect(Buffer.from((await files.readBytes(target, 5)).data).toString()).toBe('12345')
    await expect(files.readBytes(target, 4)).rejects.toMatchObject({ code: 'FS_TOO_LARGE' })
  })

  it('rejects what is not a regular file without opening it: a FIFO would hang', async () => {
    const { cwd, files } = open()
    execFileSync('mkfifo', [join(cwd, 'fifo')])
    const target = await files.resolve('fifo', { cwd })
    await expect(files.readText(target)).rejects.toMatchObject({ code: 'FS_NOT_REGULAR_FILE' })
    await expect(files.facts(await files.resolve('.', { cwd }))).rejects.toMatchObject({ code: 'FS_NOT_REGULAR_FILE' })
  })

  it('stops when aborted', async () => {
    const { cwd, files } = open()
    writeFileSync(join(cwd, 'f'), 'a'.repeat(1_000_000))
    const target = await files.resolve('f', { cwd })
    await expect(files.readText(target, AbortSignal.abort())).rejects.toMatchObject({ code: 'FS_ABORTED' })
    const controller = new AbortController()
    let pieces = 0
    const reading = files.streamText(target, () => (pieces++, controller.abort()), controller.signal)
    await expect(reading).rejects.toMatchObject({ code: 'FS_ABORTED' })
    expect(pieces).toBe(1)
  })
})

describe('the fence (S10, backends.md §6.10)', () => {
  it.each(['/proc/self/environ', '/proc/self/root/etc/passwd', '/dev/zero', '/sys/kernel/notes', 'environ-link'])(
    'never opens %s, wherever the workspace is',
    async (path) => {
      const { cwd, files } = open()
      symlinkSync('/proc/self/environ', join(cwd, 'environ-link'))
      for (const from of [cwd, '/', '/proc', '/proc/self', '/dev']) {
        const target = await files.resolve(path.startsWith('/') ? path : join(cwd, path), { cwd: from })
        // /proc/self/root is a link to /: what is behind it is an ordinary file.
        if (target.targetKey === '/etc/passwd') continue
        await expect(files.readText(target)).rejects.toMatchObject({ code: 'FS_PERMISSION_DENIED' })
      }
    }
  )

  it('keeps the data directory closed, but for a workspace or outputs of the session inside it', async () => {
    const { base, files } = open()
    mkdirSync(join(base, 'data/own'), { recursive: true })
    writeFileSync(join(base, 'data/secret'), 's')
    writeFileSync(join(base, 'data/own/f'), 'mine')
    const read = async (path: string, cwd: string, openRoots: string[] = []) =>
      (await files.readText(await files.resolve(path, { cwd, openRoots }))).text
    for (const cwd of ['/', base, join(base, 'data'), join(base, 'data/own')]) {
      await expect(read(join(base, 'data/secret'), cwd)).rejects.toMatchObject({ code: 'FS_PERMISSION_DENIED' })
    }
    expect(await read('f', join(base, 'data/own'))).toBe('mine')
    expect(await read(join(base, 'data/own/f'), '/', [join(base, 'data/own')])).toBe('mine')
  })

  it('holds reads to the readable roots and the workspace', async () => {
    const { base, cwd } = open()
    const files = new LocalFiles({ dataDirectory: join(base, 'data'), readRoots: [join(base, 'shared')] })
    const read = async (path: string) => (await files.readText(await files.resolve(path, { cwd }))).text
    for (const name of ['shared', 'shared-evil', 'outside']) {
      mkdirSync(join(base, name))
      writeFileSync(join(base, name, 'x'), name)
    }
    writeFileSync(join(cwd, 'own'), 'own')
    symlinkSync(join(base, 'outside/x'), join(cwd, 'file-link'))
    symlinkSync(join(base, 'outside'), join(cwd, 'dir-link'))
    symlinkSync('dir-link', join(cwd, 'chain'))
    expect(await read('own')).toBe('own')
    expect(await read(join(base, 'shared/x'))).toBe('shared')
    for (const path of [
      '../outside/x',
      join(base, 'outside/x'),
      join(base, 'shared-evil/x'),
      'file-link',
      'dir-link/x',
      'chain/x'
    ]) {
      await expect(read(path)).rejects.toMatchObject({ code: 'FS_PERMISSION_DENIED' })
    }
  })

  it('S11 is not fooled by a directory that becomes a link between looking and opening', async () => {
    const { base, cwd } = open()
    const files = new LocalFiles({ dataDirectory: join(base, 'data'), readRoots: [] })
    mkdirSync(join(base, 'outside'))
    writeFileSync(join(base, 'outside/f'), 'SECRET')
    mkdirSync(join(cwd, 'real'))
    writeFileSync(join(cwd, 'real/f'), 'fine')
    renameSync(join(cwd, 'real'), join(cwd, 'dir'))
    const target: ResolvedPath = await files.resolve('dir/f', { cwd })
    const seen = new Set<string>()
    for (let turn = 0; turn < 300; turn++) {
      const reading = files.readText(target).then(
        ({ text }) => text,
        (error: { code: string }) => error.code
      )
      await new Promise((resolve) => setImmediate(resolve))
      renameSync(join(cwd, 'dir'), join(cwd, 'real'))
      symlinkSync(join(base, 'outside'), join(cwd, 'dir'))
      seen.add(await reading)
      if (turn % 2 === 0)
        seen.add(
          await files.readText(target).then(
            ({ text }) => text,
            (error: { code: string }) => error.code
          )
        )
      unlinkSync(join(cwd, 'dir'))
      renameSync(join(cwd, 'real'), join(cwd, 'dir'))
    }
    rmSync(join(cwd, 'dir'), { recursive: true })
    expect(seen).toContain('FS_PERMISSION_DENIED')
    expect(seen).not.toContain('SECRET')
  })
})
