import { chmodSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, it } from 'vitest'
import { migrationsDirectory, readMigrations } from '../../../server/event-log/sqlite/migrator.js'
import { openSqliteLog } from '../../../server/event-log/sqlite/log.ts'
import { assertRuntime } from '../../../server/event-log/sqlite/runtime.ts'
import { verifyLog } from '../../../server/event-log/sqlite/verify-log.js'
import { addNotes, addSession, openTestLog } from '../../helpers/sqlite-logs.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'

/** A closed log of one session with ten events; `change` damages its database. */
async function closedLog(change: (db: Database.Database) => void = () => {}, turnOpen = 1) {
  const directory = temporaryDirectory()
  const log = await openTestLog({ directory })
  await addSession(log, 's', { turn: 1, turn_open: turnOpen })
  await addSession(log, 'sound', { turn: 1, turn_open: 1 })
  await addNotes(log, 's', 10, (n) => (n === 3 ? 'packed '.repeat(1000) : `note ${n}`))
  await addNotes(log, 'sound', 3)
  await log.close()
  const db = new Database(join(directory, 'toolwright.db'))
  change(db)
  db.close()
  return {
    directory,
    logId: log.logId,
    database: join(directory, 'toolwright.db'),
    mark: join(directory, 'toolwright.mark')
  }
}

describe('opening a log', () => {
  it('keeps its id, its head and its events', async () => {
    const { directory, logId } = await closedLog()
    const log = await openTestLog({ directory })
    expect(log).toMatchObject({ logId, head: 12, hasLostTail: false, state: 'open' })
    expect(log.damagedSessions.size).toBe(0)
    expect(await log.append({ session: 's', events: [{ type: 'note', data: 1 }] })).toMatchObject([
      { seq: 10, position: 13 }
    ])
  })

  it('is for its owner alone, also in a directory that others may look into', async () => {
    const directory = temporaryDirectory()
    chmodSync(directory, 0o755)
    const log = await openTestLog({ directory })
    await addSession(log, 's')
    for (const file of ['toolwright.db', 'toolwright.db-wal', 'toolwright.db-shm']) {
      expect([file, statSync(join(directory, file)).mode & 0o777]).toEqual([file, 0o600])
    }
    await log.close()
  })

  it('C14: a second opener is refused with 78, also from the same process, and gets in when the first is gone', async () => {
    const directory = temporaryDirectory()
    const log = await openTestLog({ directory })
    await expect(openSqliteLog({ directory })).rejects.toMatchObject({
      name: 'LogOpenError',
      code: 'LOCKED',
      exitCode: 78
    })
    await addSession(log, 'still-there')
    await log.close()
    const second = await openTestLog({ directory })
    expect(await second.rows('sessions', {})).toHaveLength(1)
  })

  it('reliability.md §2.1: every setting is read back as set', async () => {
    const directory = temporaryDirectory()
    await (await openTestLog({ directory })).close()
    const db = new Database(join(directory, 'toolwright.db'))
    const pragma = (name: string) => db.pragma(name, { simple: true })
    expect(pragma('journal_mode')).toBe('wal')
    expect(pragma('auto_vacuum')).toBe(2)
    expect(pragma('application_id')).toBe(0x54574c47)
    expect(pragma('user_version')).toBe(readMigrations(migrationsDirectory()).length)
    const strict = db.prepare(
      `SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND strict = 0 AND name NOT LIKE 'sqlite_%'`
    )
    expect(strict.pluck().get()).toBe(0)
    db.close()
  })

  it('C10: refuses a database of a newer version, and one whose migration was changed', async () => {
    const newer = await closedLog((db) => db.pragma('user_version = 99'))
    await expect(openSqliteLog(newer)).rejects.toMatchObject({ code: 'NEWER_DATABASE', exitCode: 78 })
    const changed = await closedLog((db) => db.exec(`UPDATE migrations SET hash = 'x' WHERE version = 2`))
    await expect(openSqliteLog(changed)).rejects.toMatchObject({ code: 'MIGRATION_CHANGED', exitCode: 78 })
  })

  it('C8: refuses what SQLite cannot read, and never starts empty instead', async () => {
    const corrupt = { code: 'LOG_CORRUPT', exitCode: 74 }
    const text = await closedLog()
    writeFileSync(text.database, 'not a database at all '.repeat(1000))
    await expect(openSqliteLog(text)).rejects.toMatchObject(corrupt)
    const header = await closedLog()
    writeFileSync(header.database, Buffer.concat([Buffer.alloc(100), readFileSync(header.database).subarray(100)]))
    await expect(openSqliteLog(header)).rejects.toMatchObject(corrupt)
    const zeroed = await closedLog()
    const bytes = readFileSync(zeroed.database)
    for (let page = 4096; page < bytes.length; page += 8192) bytes.fill(0, page, page + 4096)
    writeFileSync(zeroed.database, bytes)
    await expect(openSqliteLog(zeroed)).rejects.toMatchObject(corrupt)
    const cut = await closedLog()
    truncateSync(cut.database, statSync(cut.database).size / 2)
    await expect(openSqliteLog(cut)).rejects.toMatchObject(corrupt)
    const gone = await closedLog()
    rmSync(gone.database)
    await expect(openSqliteLog(gone)).rejects.toMatchObject(corrupt)
    const empty = await closedLog()
    writeFileSync(empty.database, '')
    await expect(openSqliteLog(empty)).rejects.toMatchObject(corrupt)
    const foreign = temporaryDirectory()
    const db = new Database(join(foreign, 'toolwright.db'))
    db.exec('CREATE TABLE theirs (x)')
    db.close()
    await expect(openSqliteLog({ directory: foreign })).rejects.toMatchObject(corrupt)
  }, 60_000)

  it('C7: refuses a directory that it cannot use, in one line', async () => {
    const file = join(temporaryDirectory(), 'file')
    writeFileSync(file, '')
    const refused = { code: 'UNUSABLE_DIRECTORY', exitCode: 78, message: expect.not.stringContaining('\n') }
    await expect(openSqliteLog({ directory: file })).rejects.toMatchObject(refused)
    await expect(openSqliteLog({ directory: join(file, 'below') })).rejects.toMatchObject(refused)
    await expect(openSqliteLog({ directory: '/proc/nothing' })).rejects.toMatchObject(refused)
  })

  const damages: Record<string, string> = {
    'a flipped bit in a text': `UPDATE events SET data = 'note 5'||'!' WHERE session = 's' AND seq = 5`,
    'a flipped bit in a packed payload': `UPDATE events SET data = CAST(substr(data, 1, 60) || x'55' || substr(data, 62) AS BLOB) WHERE session = 's' AND seq = 3`,
    'a size that is not the payload’s': `UPDATE events SET data = CAST(x'ffffffff00000000' || substr(data, 9) AS BLOB) WHERE session = 's' AND seq = 3`,
    'another type': `UPDATE events SET type = 'nota' WHERE session = 's' AND seq = 5`,
    'another time': `UPDATE events SET time = time + 1 WHERE session = 's' AND seq = 5`,
    'a link that was cut': `UPDATE events SET prev_hash = zeroblob(32) WHERE session = 's' AND seq = 5`
  }
  for (const [what, sql] of Object.entries(damages)) {
    it(`C8: ${what} breaks its session, and that one alone`, async () => {
      const { directory } = await closedLog((db) => expect(db.prepare(sql).run().changes).toBe(1))
      const log = await openTestLog({ directory })
      expect([...log.damagedSessions]).toEqual(['s'])
      const corrupt = { code: 'LOG_CORRUPT' }
      await expect(log.append({ session: 's', events: [{ type: 'note', data: 1 }] })).rejects.toMatchObject(corrupt)
      await expect(log.read({ session: 's', after: -1, limit: 100 })).rejects.toMatchObject(corrupt)
      expect(await log.append({ session: 'sound', events: [{ type: 'note', data: 1 }] })).toHaveLength(1)
      const all = await log.read({ after: -1, limit: 100 })
      expect(all.damaged).toEqual(['s'])
      expect(all.events.filter(({ session }) => session === 'sound')).toHaveLength(4)
    })
  }

  it('C8: an event that is missing from the middle of an open turn breaks its session', async () => {
    const { directory } = await closedLog((db) => db.exec(`DELETE FROM events WHERE session = 's' AND seq = 4`))
    expect([...(await openTestLog({ directory })).damagedSessions]).toEqual(['s'])
  })

  it('damage that the start did not look for is found by the read, and from then on the session takes nothing', async () => {
    const { directory } = await closedLog(undefined, 0)
    const before = await openTestLog({ directory })
    for (let n = 0; n < 3; n += 1) await addNotes(before, 'sound', 500)
    await before.close()
    const db = new Database(join(directory, 'toolwright.db'))
    db.exec(`UPDATE events SET time = 5 WHERE session = 's' AND seq = 5`)
    db.close()
    const log = await openTestLog({ directory })
    expect([...log.damagedSessions]).toEqual([])
    await expect(log.read({ session: 's', after: -1, limit: 100 })).rejects.toMatchObject({ code: 'LOG_CORRUPT' })
    await expect(addNotes(log, 's', 1)).rejects.toMatchObject({ code: 'LOG_CORRUPT' })
  })

  it('reliability.md §0.4: a log behind its mark gets another id, so that a cursor into the lost tail is a LOG_RESET', async () => {
    const { directory, logId } = await closedLog((db) => db.exec('DELETE FROM events WHERE position > 10'))
    const log = await openTestLog({ directory })
    expect(log.hasLostTail).toBe(true)
    expect(log.logId).not.toBe(logId)
    await log.close()
    const again = await openTestLog({ directory })
    expect(again).toMatchObject({ hasLostTail: false, logId: log.logId })
  })

  it('a mark that was torn in one of its halves still tells', async () => {
    const closed = await closedLog((db) => db.exec('DELETE FROM events WHERE position > 10'))
    // Another mark after the last event's, cut off while it was being written.
    const bytes = Buffer.concat([readFileSync(closed.mark), Buffer.alloc(1024)]).subarray(0, 1024)
    const at = bytes.subarray(0, 512).includes('"position":12') ? 512 : 0
    bytes.write('{"torn":', at)
    writeFileSync(closed.mark, bytes)
    expect((await openTestLog(closed)).hasLostTail).toBe(true)
  })

  it('architecture.md §8: refuses a pair of Node and better-sqlite3 that crashes, and names the fix', () => {
    expect(() => assertRuntime()).not.toThrow()
    for (const [node, sqlite, fix] of [
      ['20.20.2', '13.1.0', 'better-sqlite3@12'],
      ['24.3.0', '12.11.1', 'better-sqlite3@13']
    ] as const) {
      expect(() => assertRuntime(node, sqlite)).toThrow(
        expect.objectContaining({ exitCode: 78, message: expect.stringContaining(fix) })
      )
    }
    expect(() => assertRuntime('22.15.0', '13.0.0')).not.toThrow()
  })

  it('C8: verify reads everything, while the log is in use', async () => {
    const { directory } = await closedLog(undefined, 0)
    const log = await openTestLog({ directory })
    expect(verifyLog(directory)).toEqual({ sessions: 2, events: 13, damagedSessions: [] })
    await addNotes(log, 'sound', 1)
    await log.close()
    const db = new Database(join(directory, 'toolwright.db'))
    db.exec(`DELETE FROM events WHERE session = 's' AND seq = 0`)
    db.close()
    expect(verifyLog(directory)).toEqual({ sessions: 2, events: 13, damagedSessions: ['s'] })
    writeFileSync(join(directory, 'toolwright.db'), 'nonsense'.repeat(1000))
    expect(() => verifyLog(directory)).toThrow(expect.objectContaining({ code: 'LOG_CORRUPT' }))
    expect(() => verifyLog(temporaryDirectory())).toThrow(expect.objectContaining({ code: 'LOG_CORRUPT' }))
  })

  it('the newest positions are not given again after their session was deleted', async () => {
    const directory = temporaryDirectory()
    const log = await openTestLog({ directory })
    await addSession(log, 's')
    await addNotes(log, 's', 3)
    await log.append({ writes: [{ table: 'sessions', op: 'delete', row: { id: 's' } }] })
    await log.close()
    const again = await openTestLog({ directory })
    expect(again).toMatchObject({ head: 2, hasLostTail: false })
  })
})
