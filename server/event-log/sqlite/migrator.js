import { createHash } from 'node:crypto'
import { copyFileSync, existsSync, fsyncSync, openSync, closeSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import path from 'node:path'
import { failpoint } from './failpoint.js'
import { LogOpenError } from './open-error.js'

/** @typedef {{ version: number, name: string, hash: string, sql: string }} Migration */

/** Where the migrations stand: beside the source tree, or beside `dist/` in an installed server. */
export function migrationsDirectory() {
  const [nearest, ...rest] = ['../../../migrations', '../../../../migrations'].map((relative) =>
    fileURLToPath(new URL(relative, import.meta.url))
  )
  return [nearest, ...rest].find((directory) => directory !== undefined && existsSync(directory)) ?? String(nearest)
}

/**
 * `001.name.sql`, `002.…`: numbered from 1 without a gap.
 * @param {string} directory
 * @returns {Migration[]}
 */
export function readMigrations(directory) {
  const files = readdirSync(directory)
    .filter((name) => /^\d{3}\..+\.sql$/.test(name))
    .sort()
  return files.map((name, index) => {
    const version = Number(name.slice(0, 3))
    if (version !== index + 1)
      throw new LogOpenError('MIGRATION_CHANGED', `migration ${index + 1} is missing in ${directory}`)
    const sql = readFileSync(path.join(directory, name), 'utf8')
    return { version, name, sql, hash: createHash('sha256').update(sql).digest('hex') }
  })
}

/**
 * Brings the database up to date, forward only, one transaction a migration; what is applied must be what the file says now.
 * A database that has data is copied beside itself first (reliability.md C10).
 * @param {import('better-sqlite3').Database} db
 * @param {string} file the database's
 * @param {readonly Migration[]} migrations
 */
export function migrate(db, file, migrations) {
  const version = Number(db.pragma('user_version', { simple: true }))
  if (version > migrations.length) {
    const known = `this server knows version ${migrations.length}`
    throw new LogOpenError(
      'NEWER_DATABASE',
      `the event log has version ${version}, ${known}: start a newer server, or restore a backup`
    )
  }
  db.exec(
    'CREATE TABLE IF NOT EXISTS migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, hash TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT'
  )
  assertApplied(db, migrations.slice(0, version))
  if (version > 0 && version < migrations.length) copyAside(db, file, version)
  const record = db.prepare('INSERT INTO migrations (version, name, hash, applied_at) VALUES (?, ?, ?, ?)')
  for (const migration of migrations.slice(version)) {
    db.transaction(() => {
      db.exec(migration.sql)
      failpoint('mid-migration')
      record.run(migration.version, migration.name, migration.hash, Date.now())
      db.pragma(`user_version = ${migration.version}`)
    }).immediate()
    failpoint('after-migration')
  }
  // The tables belong in the database file from the start: a journal that gets lost then takes events along, which the mark tells.
  if (version < migrations.length) db.pragma('wal_checkpoint(TRUNCATE)')
}

/**
 * @param {import('better-sqlite3').Database} db
 * @param {readonly Migration[]} expected
 */
function assertApplied(db, expected) {
  const rows = /** @type {{ version: number, hash: string }[]} */ (
    db.prepare('SELECT version, hash FROM migrations ORDER BY version').all()
  )
  const applied = new Map(rows.map(({ version, hash }) => [version, hash]))
  for (const { version, name, hash } of expected) {
    if (applied.get(version) === hash) continue
    throw new LogOpenError('MIGRATION_CHANGED', `migration ${name} is not the one this event log was made with`)
  }
}

/**
 * @param {import('better-sqlite3').Database} db
 * @param {string} file
 * @param {number} version
 */
function copyAside(db, file, version) {
  db.pragma('wal_checkpoint(TRUNCATE)')
  const copy = `${file}.version-${version}`
  copyFileSync(file, copy)
  const handle = openSync(copy, 'r+')
  try {
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
}
