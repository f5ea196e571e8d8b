import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { type LoggedEvent, startApp } from '../../helpers/app.ts'
import { HomeApp } from '../../helpers/home-app.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'

it('F69 C59 parallel edits of one file are both there, and seen as cards', async () => {
  const app = await startApp()
  const file_path = join(temporaryDirectory(), 'f')
  writeFileSync(file_path, Array.from({ length: 100 }, (_, at) => `${at + 1}\n`).join(''))
  const edit = (callId: string, old_string: string, new_string: string) => ({
    callId,
    name: 'edit',
    arguments: { file_path, old_string, new_string }
  })
  await app.invoke({ callId: 'r', name: 'read', arguments: { file_path } })
  const { status, body } = await app.batch([edit('a', '\n50\n', '\nFIFTY\n'), edit('b', '\n75\n', '\nX\n')])
  expect([status, body.results.map(({ isError }: any) => isError)]).toEqual([200, [false, false]])
  const lines = readFileSync(file_path, 'utf8').split('\n')
  expect([lines[49], lines[74], lines.length]).toEqual(['FIFTY', 'X', 101])
  const views = (await app.events()).flatMap(({ view }: LoggedEvent & { view?: any }) =>
    view?.card === 'diff' ? [view.diffs[0].newText] : []
  )
  expect(views).toEqual(['\nFIFTY\n', '47\n48\n49\nFIFTY\n51\n52\n53', '\nX\n', '72\n73\n74\nX\n76\n77\n78'])
})

it('two calls of one session at the same moment lose nothing either', async () => {
  const app = await startApp()
  const file_path = join(temporaryDirectory(), 'f')
  await app.invoke({ callId: 'w', name: 'write', arguments: { file_path, content: '1 2 3 4 5 6 7 8' } })
  const answers = await Promise.all(
    [1, 2, 3, 4, 5, 6, 7, 8].map((digit) =>
      app.invoke({
        callId: `e${digit}`,
        name: 'edit',
        arguments: { file_path, old_string: `${digit}`, new_string: `<${digit * 11}>` }
      })
    )
  )
  const text = readFileSync(file_path, 'utf8')
  answers.forEach((answer, at) => {
    // One that met another's change says so; one that says it is done is in the file.
    if (answer.isError) expect(answer.error?.info?.code).toBe('FS_STALE_VERSION')
    expect(text.includes(`<${(at + 1) * 11}>`)).toBe(!answer.isError)
  })
})

it('S10 files.readRoots holds reading, searching and changing to the roots and the directory of the session', async () => {
  const base = temporaryDirectory()
  for (const name of ['own', 'shared', 'shared-evil']) {
    mkdirSync(join(base, name))
    writeFileSync(join(base, name, 'f'), name)
  }
  symlinkSync('../shared-evil/f', join(base, 'own/link'))
  symlinkSync('shared', join(base, 'root'))
  const app = await HomeApp.start({ 'files.readRoots': `${join(base, 'root')},${join(base, 'gone')}` })
  await app.ask('PUT', '/sessions/s', { cwd: join(base, 'own') })
  const codeOf = async (name: string, args: object): Promise<unknown> => {
    const { body } = await app.ask('POST', '/invoke', { session: 's', name, arguments: args })
    return body.error?.info?.code ?? body.isError
  }
  const read = (file_path: string) => codeOf('read', { file_path })
  expect(await Promise.all(['f', '../shared/f', join(base, 'root/f')].map(read))).toEqual([false, false, false])
  const outside = ['../shared-evil/f', 'link', join(base, 'f'), '/etc/passwd', '/dev/zero']
  expect(new Set(await Promise.all(outside.map(read)))).toEqual(new Set(['FS_PERMISSION_DENIED']))
  expect(await codeOf('grep', { pattern: 'e', path: '../shared-evil' })).toBe('FS_PERMISSION_DENIED')
  expect(await codeOf('glob', { pattern: '*', path: '/etc' })).toBe('FS_PERMISSION_DENIED')
  expect(await codeOf('write', { file_path: '../shared-evil/new', content: '' })).toBe('FS_PERMISSION_DENIED')
})
