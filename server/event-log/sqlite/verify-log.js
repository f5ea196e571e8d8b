import { existsSync } from 'node:fs'
import { openForReading } from './connection.js'
import { logFiles } from './files.js'
import { openFailure } from './store.js'
import { corrupt, damagedOf } from './verify.js'

/**
 * What `toolwright verify` says of a log: the whole database is read, every payload decoded and every session's hash chain walked.
 * The log may be in use meanwhile. Throws `LogOpenError` (`LOG_CORRUPT`) when SQLite cannot read it.
 * @param {string} directory
 */
export function verifyLog(directory) {
  return verifyDatabase(logFiles(directory).database)
}

/**
 * The same of one file, as a backup is.
 * @param {string} database
 * @returns {{ sessions: number, events: number, damagedSessions: string[] }}
 */
export function verifyDatabase(database) {
  if (!existsSync(database)) throw corrupt(`there is no ${database}`)
  /** @type {import('better-sqlite3').Database | undefined} */
  let db
  try {
    db = openForReading(database)
    // One view of it all, whatever is appended meanwhile.
    db.exec('BEGIN')
    const answer = db.pragma('integrity_check(1)', { simple: true })
    if (answer !== 'ok') throw corrupt(String(answer))
    const count = db.prepare(
      'SELECT (SELECT count(*) FROM sessions) AS sessions, (SELECT count(*) FROM events) AS events'
    )
    const { sessions, events } = /** @type {{ sessions: number, events: number }} */ (count.get())
    const ids = /** @type {string[]} */ (db.prepare('SELECT id FROM sessions ORDER BY id').pluck().all())
    return { sessions, events, damagedSessions: [...damagedOf(db, ids)] }
  } catch (error) {
    throw openFailure(error)
  } finally {
    db?.close()
  }
}
