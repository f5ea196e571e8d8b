import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { execa } from 'execa'
import { expect, it } from 'vitest'
import { built } from '../helpers/built.ts'
import { addSession, openTestLog } from '../helpers/sqlite-logs.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'

const toolwright = (...args: string[]) =>
  execa('node', [built.cli, ...args], {
    env: { PATH: process.env['PATH'] },
    extendEnv: false,
    reject: false
  })

it('verify, backup and a restore of it, and what they say of a damaged one', async () => {
  const home = temporaryDirectory()
  const log = await openTestLog({ directory: home })
  await addSession(log, 's')
  const events = Array.from({ length: 40 }, (_, n) => ({ type: 'user/message', data: { n } }))
  await log.append({ session: 's', events })

  // While the log is in use.
  expect(await toolwright('verify', home)).toMatchObject({
    exitCode: 0,
    stdout: expect.stringContaining('1 sessions, 40 events')
  })
  const file = join(temporaryDirectory(), 'backup.db')
  expect(await toolwright('backup', file, '--home', home)).toMatchObject({
    exitCode: 0,
    stdout: expect.stringContaining('40 events')
  })
  expect(await toolwright('backup', file, '--home', home)).toMatchObject({
    exitCode: 78,
    stderr: expect.stringContaining('already')
  })
  expect(await toolwright('verify', file)).toMatchObject({ exitCode: 0 })

  const restored = temporaryDirectory()
  copyFileSync(file, join(restored, 'toolwright.db'))
  expect(await toolwright('verify', '--home', restored)).toMatchObject({
    exitCode: 0,
    stdout: expect.stringContaining('40 events')
  })

  const exported = join(temporaryDirectory(), 'session.jsonl.zstd')
  const parts: Uint8Array[] = []
  for await (const part of log.exportSession('s')) parts.push(part)
  writeFileSync(exported, Buffer.concat(parts))
  expect(await toolwright('verify', exported)).toMatchObject({
    exitCode: 0,
    stdout: expect.stringContaining('session s, 40 events')
  })
  writeFileSync(exported, Buffer.concat(parts).subarray(0, -3))
  expect(await toolwright('verify', exported)).toMatchObject({
    exitCode: 74,
    stderr: expect.stringMatching(/^toolwright: /)
  })

  const db = new Database(file)
  db.exec('UPDATE events SET time = 7 WHERE seq = 20')
  db.close()
  expect(await toolwright('verify', file)).toMatchObject({
    exitCode: 74,
    stderr: expect.stringContaining('damaged: s')
  })
  const empty = join(temporaryDirectory(), 'empty')
  mkdirSync(empty)
  expect(await toolwright('verify', empty)).toMatchObject({ exitCode: 74 })
  expect(await toolwright('verify', join(empty, 'none'))).toMatchObject({ exitCode: 78 })
  expect(await toolwright('verify', 'a', 'b')).toMatchObject({ exitCode: 64 })
  expect(await toolwright('backup')).toMatchObject({ exitCode: 64 })
}, 120_000)
