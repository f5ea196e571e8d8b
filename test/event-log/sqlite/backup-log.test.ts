import { copyFileSync, existsSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, it } from 'vitest'
import { backupLog } from '../../../server/event-log/sqlite/backup-log.js'
import { verifyDatabase } from '../../../server/event-log/sqlite/verify-log.js'
import { addNotes, addSession, openTestLog } from '../../helpers/sqlite-logs.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'

describe('a backup', () => {
  it('C11: made while events come, it is one whole file with all that was acknowledged before, and restores to another log', async () => {
    const directory = temporaryDirectory()
    const log = await openTestLog({ directory })
    await addSession(log, 's', { turn_open: 1 })
    for (let n = 0; n < 20; n += 1) await addNotes(log, 's', 200, (each) => `${each} ${'x'.repeat(500)}`)
    const before = log.head
    const target = temporaryDirectory()
    const file = join(target, 'copy.db')
    const isCopying = { now: true }
    const copying = backupLog(directory, file).finally(() => (isCopying.now = false))
    while (isCopying.now) await addNotes(log, 's', 1)
    expect((await copying).events).toBeGreaterThanOrEqual(before + 1)
    expect(log.head).toBeGreaterThan(before)
    expect(readdirSync(target)).toEqual(['copy.db'])
    expect(statSync(file).mode & 0o777).toBe(0o600)

    // The restore, as docs/storage.md says it: into a directory that holds no other log.
    const restored = temporaryDirectory()
    copyFileSync(file, join(restored, 'toolwright.db'))
    const again = await openTestLog({ directory: restored })
    expect(again).toMatchObject({ hasLostTail: false, damagedSessions: new Set() })
    expect(again.head).toBeGreaterThanOrEqual(before)
    // A cursor into what came after the backup must not be taken for one into what comes now.
    expect(again.logId).not.toBe(log.logId)
    await addNotes(again, 's', 1)
    expect((await again.read({ session: 's', after: -1, limit: 500 })).events).toHaveLength(500)
  })

  it('is refused where a file is, and where there is no log; what is damaged gets no copy that looks whole', async () => {
    const directory = temporaryDirectory()
    const log = await openTestLog({ directory })
    await addSession(log, 's')
    await addNotes(log, 's', 3)
    const target = temporaryDirectory()
    const file = join(target, 'copy.db')
    writeFileSync(file, 'precious')
    await expect(backupLog(directory, file)).rejects.toMatchObject({ code: 'UNUSABLE_FILE' })
    await expect(backupLog(temporaryDirectory(), join(target, 'b.db'))).rejects.toMatchObject({ code: 'LOG_CORRUPT' })
    await expect(backupLog(directory, '/proc/nothing/here.db')).rejects.toMatchObject({ code: 'UNUSABLE_DIRECTORY' })
    const db = new Database(join(directory, 'toolwright.db'))
    db.exec(`UPDATE events SET time = time + 1 WHERE seq = 1`)
    db.close()
    await expect(backupLog(directory, join(target, 'c.db'))).rejects.toMatchObject({ code: 'LOG_CORRUPT' })
    expect(readdirSync(target)).toEqual(['copy.db'])
    expect(existsSync(join(target, 'c.db'))).toBe(false)
    expect(() => verifyDatabase(file)).toThrow(expect.objectContaining({ code: 'LOG_CORRUPT' }))
  })
})
