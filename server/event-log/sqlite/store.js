import { randomUUID } from 'node:crypto'
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync } from 'node:fs'
import path from 'node:path'
import { openAppender } from './appender.js'
import { openForWriting } from './connection.js'
import { logFiles } from './files.js'
import { LogOpenError } from './open-error.js'
import { openPruner } from './prune.js'
import { migrate, migrationsDirectory, readMigrations } from './migrator.js'
import { openSideTables } from './side-tables.js'
import { checkDatabase, corrupt, findDamaged } from './verify.js'

/** @typedef {ReturnType<typeof openStore>} Store the writer's database, checked and ready */

/**
 * Makes the directory and those above it. Not by `recursive: true`: below /proc that never returns.
 * @param {string} directory
 */
export function prepareDirectory(directory) {
  if (existsSync(directory)) return
  prepareDirectory(path.dirname(directory))
  mkdirSync(directory, { mode: 0o700 })
}

/**
 * Opens, migrates and verifies the database (reliability.md §2.1, C8). `mark` is how far the log had got, if known.
 * @param {import('./protocol.ts').WriterOptions} options
 * @param {import('./mark.js').Mark | undefined} mark
 */
export function openStore({ directory, synchronous, tables }, mark) {
  const files = logFiles(directory)
  // A database whose journal was deleted looks new, and must not be taken for it.
  if (mark !== undefined && !existsSync(files.database)) throw corrupt('the database file is gone, its mark is there')
  const migrations = readMigrations(migrationsDirectory())
  /** @type {import('better-sqlite3').Database | undefined} */
  let db
  try {
    db = openForWriting(files.database, synchronous)
    // Checkpoints are made explicitly: the automatic ones swallow a failed fsync (reliability.md §2.2, fsyncgate).
    db.pragma('wal_autocheckpoint = 0')
    checkDatabase(db)
    if (mark !== undefined && db.pragma('user_version', { simple: true }) === 0)
      throw corrupt('its tables are gone, its mark is there')
    migrate(db, files.database, migrations)
    const { logId, lostTail } = identify(db, mark)
    syncDirectory(directory)
    const damaged = findDamaged(db)
    const sideTables = openSideTables(db, tables)
    const appender = openAppender(db, sideTables, damaged)
    return { db, logId, lostTail, damaged, appender, pruner: openPruner(db, appender) }
  } catch (error) {
    db?.close()
    throw openFailure(error)
  }
}

/**
 * The log's id: a new one when the log lost its tail, so that a client's cursor into that tail is a LOG_RESET and not silence.
 * @param {import('better-sqlite3').Database} db
 * @param {import('./mark.js').Mark | undefined} mark
 */
function identify(db, mark) {
  const row = /** @type {{ log_id: string, head: number } | undefined} */ (
    db.prepare('SELECT log_id, head FROM log').get()
  )
  if (row === undefined) {
    const logId = randomUUID()
    db.prepare('INSERT INTO log (id, log_id, created_at) VALUES (1, ?, ?)').run(logId, Date.now())
    // All that there was is gone when the mark tells of something.
    return { logId, lostTail: mark !== undefined }
  }
  if (mark?.logId !== row.log_id || !isBehind(db, row.head, mark)) return { logId: row.log_id, lostTail: false }
  const logId = randomUUID()
  db.prepare('UPDATE log SET log_id = ?').run(logId)
  return { logId, lostTail: true }
}

/**
 * @param {import('better-sqlite3').Database} db
 * @param {number} keptHead
 * @param {import('./mark.js').Mark} mark
 */
function isBehind(db, keptHead, mark) {
  const last = /** @type {number | null} */ (db.prepare('SELECT max(position) FROM events').pluck().get())
  if (Math.max(keptHead, last ?? -1) < mark.position) return true
  const hash = /** @type {Buffer | undefined} */ (
    db.prepare('SELECT hash FROM events WHERE position = ?').pluck().get(mark.position)
  )
  return hash !== undefined && hash.toString('hex') !== mark.hash
}

/** @param {string} directory */
export function syncDirectory(directory) {
  const handle = openSync(directory, 'r')
  try {
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
}

/**
 * @param {unknown} error
 * @returns {unknown}
 */
export function openFailure(error) {
  if (error instanceof LogOpenError) return error
  const { code = '', message } = /** @type {{ code?: string, message: string }} */ (error)
  if (/^SQLITE_(NOTADB|CORRUPT)/.test(code)) return corrupt(message)
  if (
    /^(SQLITE_(CANTOPEN|READONLY|FULL|PERM|AUTH)|EACCES|EPERM|EROFS|ENOSPC|ENOTDIR|EEXIST|ENOENT|EISDIR|ERR_INVALID_ARG)/.test(
      code
    )
  ) {
    return new LogOpenError('UNUSABLE_DIRECTORY', `the data directory cannot be used: ${message}`, { cause: error })
  }
  return error
}
