import { join } from 'node:path'
import type Database from 'better-sqlite3'
import { expect, it, onTestFinished, vi } from 'vitest'
import { tables } from '../../../server/event-log/event-log.ts'
import { openForWriting } from '../../../server/event-log/sqlite/connection.js'
import { migrate, migrationsDirectory, readMigrations } from '../../../server/event-log/sqlite/migrator.js'
import { openAppender } from '../../../server/event-log/sqlite/appender.js'
import { openPruner } from '../../../server/event-log/sqlite/prune.js'
import { openSessionReader } from '../../../server/event-log/sqlite/session-reader.js'
import { openSideTables } from '../../../server/event-log/sqlite/side-tables.js'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'

/** Every statement about calls that is prepared while `use` runs, and how SQLite means to find them. */
function plansOf(use: (db: Database.Database) => void): Record<string, string[]> {
  const file = join(temporaryDirectory(), 'toolwright.db')
  const db = openForWriting(file, 'full')
  onTestFinished(() => void db.close())
  migrate(db, file, readMigrations(migrationsDirectory()))
  db.exec(`INSERT INTO log (id, log_id, created_at) VALUES (1, 'log', 1)`)
  const prepared = vi.spyOn(db, 'prepare')
  use(db)
  const statements = new Set(prepared.mock.calls.map(([sql]) => sql).filter((sql) => /\bcalls\b/.test(sql)))
  prepared.mockRestore()
  const planOf = (sql: string): string[] => {
    const explained = db.prepare(`EXPLAIN QUERY PLAN ${sql}`)
    const names = [...new Set([...sql.matchAll(/:(\w+)/g)].map(([, name]) => [name, 1]))]
    const rows =
      names.length > 0
        ? explained.all(Object.fromEntries(names))
        : explained.all(...[...sql.matchAll(/\?/g)].map(() => 1))
    return (rows as { detail: string }[]).map(({ detail }) => detail).filter((detail) => /\bcalls\b/.test(detail))
  }
  return Object.fromEntries([...statements].map((sql) => [sql.replaceAll(/\s+/g, ' '), planOf(sql)]))
}

it('what is asked about the calls of a session reads one call, or those that have not ended', () => {
  const plans = plansOf((db) => {
    const sideTables = openSideTables(db, tables)
    for (const state of ['accepted', 'started', 'awaiting-approval'])
      sideTables.rows('calls', { session: 's', state }, 1)
    sideTables.rows('calls', { session: 's', call_id: 'c' }, 1)
    openSessionReader(db)
    openPruner(db, openAppender(db, sideTables, new Set()))
  })
  expect(Object.keys(plans)).toHaveLength(5)
  for (const [sql, plan] of Object.entries(plans)) {
    const isOfOne = /call_id (IS|IN)/.test(sql)
    const expected = isOfOne
      ? /^SEARCH calls USING .*\(session=\? AND call_id=\?\)/
      : /^SEARCH calls USING .*calls_not_done/
    expect(plan, sql).toEqual([expect.stringMatching(expected)])
  }
})
