import { chmodSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import type { Search } from '../../server/backends/search/search.ts'
import { HomeApp } from '../helpers/home-app.ts'
import { sandboxGround } from '../helpers/sandbox.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'

const canConfine = await sandboxGround()
  .open()
  .then(
    () => true,
    () => false
  )

describe.skipIf(!canConfine)('S10 a directory that a command exchanges for a link', { timeout: 60_000 }, () => {
  it('S10 after a search was let into it shows nothing of where the link leads', async () => {
    const base = temporaryDirectory()
    chmodSync(base, 0o755)
    const app = await HomeApp.start({ home: join(base, 'home'), 'shell.executor': 'bash-sandbox' })
    const call = (name: string, args: object) =>
      app.ask('POST', '/invoke', { session: 's', name, arguments: args }).then(({ body }) => body)
    const made = await call('bash', {
      command: `mkdir d && echo mine > d/f && ln -s ${app.home} l && pwd`,
      description: 'Makes a directory and a link'
    })
    const workspace = made.value.stdout.text.trim()
    const exchange = (): void => {
      renameSync(join(workspace, 'd'), join(workspace, 'x'))
      renameSync(join(workspace, 'l'), join(workspace, 'd'))
    }
    const back = (): void => {
      renameSync(join(workspace, 'd'), join(workspace, 'l'))
      renameSync(join(workspace, 'x'), join(workspace, 'd'))
    }
    expect(await call('grep', { pattern: '.', path: 'd' })).toMatchObject({
      value: { matches: [{ path: 'd/f', line: 'mine' }] }
    })
    expect(await call('glob', { pattern: '*', path: 'd' })).toMatchObject({ value: { paths: ['d/f'] } })

    // What was spilled of the session's own results lies with the server's data, and is the session's all the same.
    const long = await call('bash', { command: 'seq 200000; echo needle', description: 'Says much' })
    const spilled = /\/\S+\/spill\/\S+/.exec(JSON.stringify(long.content))?.[0].replace(/[^\w/.-].*$/, '')
    expect(await call('grep', { pattern: 'needle', path: spilled })).toMatchObject({
      value: { matches: [{ lineNumber: 200_001, line: 'needle' }] }
    })

    const search = app.app.fileSearch
    for (const name of ['matches', 'files'] as const) {
      const original = search[name].bind(search) as (...args: unknown[]) => Promise<never>
      vi.spyOn(search, name).mockImplementation((async (...args: unknown[]) => {
        exchange()
        return original(...args).finally(back)
      }) as Search[typeof name] as never)
    }
    const secret = readFileSync(join(app.home, 'admin-token'), 'utf8').trim()
    for (const [name, args] of [
      ['grep', { pattern: '.', path: 'd' }],
      ['grep', { pattern: '.', path: 'd/admin-token' }],
      ['glob', { pattern: '*', path: 'd' }]
    ] as const) {
      const text = JSON.stringify(await call(name, args))
      expect(text, name).not.toContain(secret)
      expect(text, name).not.toContain('toolwright.db')
    }
  })
})
