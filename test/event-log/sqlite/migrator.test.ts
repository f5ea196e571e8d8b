import { appendFileSync, existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, it } from 'vitest'
import { tables } from '../../../server/event-log/event-log.ts'
import { blankRows } from '../../../server/event-log/side-rows.ts'
import { migrate, migrationsDirectory, readMigrations } from '../../../server/event-log/sqlite/migrator.js'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'

/** A directory of migrations and a database to apply them to. */
function setUp(...sql: string[]) {
  const directory = temporaryDirectory()
  for (const [index, text] of sql.entries()) writeFileSync(join(directory, `00${index + 1}.step.sql`), text)
  const file = join(directory, 'log.db')
  const open = () => {
    const db = new Database(file)
    db.pragma('journal_mode = WAL')
    return db
  }
  const run = () => {
    const db = open()
    try {
      migrate(db, file, readMigrations(directory))
    } finally {
      db.close()
    }
  }
  return { directory, file, open, run }
}

describe('migrations', () => {
  it('are applied in order, once', () => {
    const { open, run } = setUp('CREATE TABLE a (x) STRICT;'.replace('x', 'x INTEGER'), 'INSERT INTO a VALUES (1);')
    run()
    run()
    const db = open()
    expect(db.prepare('SELECT x FROM a').pluck().all()).toEqual([1])
    expect(db.pragma('user_version', { simple: true })).toBe(2)
    expect(db.prepare('SELECT version, name FROM migrations').all()).toEqual([
      { version: 1, name: '001.step.sql' },
      { version: 2, name: '002.step.sql' }
    ])
    db.close()
  })

  it('C10: one that fails leaves nothing of itself, and what was before is copied aside first', () => {
    const { directory, file, open, run } = setUp('CREATE TABLE a (x INTEGER); INSERT INTO a VALUES (7);')
    run()
    expect(existsSync(`${file}.version-1`)).toBe(false)
    writeFileSync(join(directory, '002.bad.sql'), 'UPDATE a SET x = 8; CREATE TABLE b (x INTEGER); SELECT nonsense;')
    expect(run).toThrow(/nonsense/)
    const db = open()
    expect(db.prepare('SELECT x FROM a').pluck().all()).toEqual([7])
    expect(db.pragma('user_version', { simple: true })).toBe(1)
    expect(db.prepare(`SELECT count(*) FROM sqlite_schema WHERE name = 'b'`).pluck().get()).toBe(0)
    db.close()
    const copy = new Database(`${file}.version-1`, { readonly: true })
    expect(copy.prepare('SELECT x FROM a').pluck().all()).toEqual([7])
    copy.close()
  })

  it('refuse a changed file, a gap, and a database that is ahead of them', () => {
    const changed = setUp('CREATE TABLE a (x INTEGER);')
    changed.run()
    appendFileSync(join(changed.directory, '001.step.sql'), '-- edited later')
    expect(changed.run).toThrow(expect.objectContaining({ code: 'MIGRATION_CHANGED', exitCode: 78 }))
    const gap = setUp('SELECT 1;', 'SELECT 1;', 'SELECT 1;')
    rmSync(join(gap.directory, '002.step.sql'))
    expect(gap.run).toThrow(expect.objectContaining({ code: 'MIGRATION_CHANGED' }))
    const ahead = setUp('SELECT 1;', 'SELECT 1;')
    ahead.run()
    rmSync(join(ahead.directory, '002.step.sql'))
    expect(ahead.run).toThrow(expect.objectContaining({ code: 'NEWER_DATABASE', exitCode: 78 }))
  })

  it('declare the tables that the contract names, as the log in memory has them', () => {
    const db = new Database(':memory:')
    for (const { sql } of readMigrations(migrationsDirectory())) db.exec(sql)
    for (const [table, { key }] of Object.entries(tables)) {
      const columns = db.pragma(`table_info(${table})`) as { name: string; pk: number; dflt_value: string | null }[]
      const blank = columns.map(({ name, dflt_value: value }) => [name, value === null ? null : Number(value)])
      expect(Object.fromEntries(blank)).toEqual(blankRows[table as keyof typeof tables])
      const primary = columns.filter(({ pk }) => pk > 0).sort((left, right) => left.pk - right.pk)
      expect(primary.map(({ name }) => name)).toEqual(key)
    }
    db.close()
  })
})
