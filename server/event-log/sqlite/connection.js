import { closeSync, existsSync, openSync } from 'node:fs'
import Database from 'better-sqlite3'
import { LogOpenError } from './open-error.js'

const applicationId = 0x54574c47 // 'TWLG'
/** Above this the journal is cut back at the next checkpoint that no reader holds up. */
export const journalSizeLimit = 64 * 1024 * 1024
const levels = { normal: 1, full: 2 }

/** @typedef {import('better-sqlite3').Database} Db */

/**
 * The writing connection, with every setting of reliability.md §2.1 read back where SQLite may ignore it.
 * @param {string} file
 * @param {'full' | 'normal'} synchronous
 * @returns {Db}
 */
export function openForWriting(file, synchronous) {
  const isNew = !existsSync(file)
  // Its journal gets the same mode. The directory may be one that was made beforehand, for others to look into.
  if (isNew) closeSync(openSync(file, 'wx', 0o600))
  const db = new Database(file, { timeout: 5000 })
  try {
    if (!isNew) assertOurs(db)
    assertVersion(db)
    // Before the first table, or it has no effect.
    if (isNew) db.pragma('auto_vacuum = INCREMENTAL')
    if (db.pragma('journal_mode = WAL', { simple: true }) !== 'wal') {
      throw new LogOpenError('UNUSABLE_DIRECTORY', 'the file system of the data directory does not support WAL')
    }
    harden(db)
    db.pragma('foreign_keys = ON')
    db.pragma(`journal_size_limit = ${journalSizeLimit}`)
    db.pragma(`synchronous = ${synchronous}`)
    // better-sqlite3 is built so that WAL silently means NORMAL, which loses acknowledged events at a power cut.
    if (db.pragma('synchronous', { simple: true }) !== levels[synchronous]) {
      throw new LogOpenError('NOT_DURABLE', `SQLite did not accept synchronous=${synchronous}`)
    }
    db.pragma(`application_id = ${applicationId}`)
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

/**
 * A reading connection; it never writes and never checkpoints.
 * @param {string} file
 * @returns {Db}
 */
export function openForReading(file) {
  const db = new Database(file, { readonly: true, fileMustExist: true, timeout: 5000 })
  harden(db)
  db.pragma('query_only = ON')
  return db
}

/** @param {Db} db */
function harden(db) {
  db.pragma('trusted_schema = OFF')
  db.pragma('cell_size_check = ON')
}

/** @param {Db} db */
function assertOurs(db) {
  const id = db.pragma('application_id', { simple: true })
  const tables = db.prepare('SELECT count(*) FROM sqlite_schema').pluck().get()
  if (id !== applicationId && tables !== 0) {
    throw new LogOpenError('LOG_CORRUPT', 'the database in the data directory is not an event log of this server')
  }
}

/** SQLite before 3.51.3 can corrupt a WAL database when two connections checkpoint (reliability.md §0.18). @param {Db} db */
function assertVersion(db) {
  const version = String(db.prepare('SELECT sqlite_version()').pluck().get())
  const [major = 0, minor = 0, patch = 0] = version.split('.').map(Number)
  if (major * 1e6 + minor * 1e3 + patch < 3_051_003) {
    throw new LogOpenError(
      'BAD_RUNTIME',
      `SQLite ${version} has a known corruption bug; better-sqlite3 with 3.51.3 or later is needed`
    )
  }
}
