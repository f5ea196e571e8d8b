import { randomUUID } from 'node:crypto'
import { closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { openForReading } from './connection.js'
import { logFiles } from './files.js'
import { LogOpenError } from './open-error.js'
import { openFailure, syncDirectory } from './store.js'
import { corrupt } from './verify.js'
import { verifyDatabase } from './verify-log.js'

/**
 * Copies the log of a directory into one new file, while a server may be using it: a read transaction holds the view, so no append
 * waits and none makes the copy begin anew (reliability.md C11). The copy is verified before it gets its name, and has a log id of its
 * own: what is restored from it is another log, and a client's cursor into what came after is a `LOG_RESET`.
 * @param {string} directory
 * @param {string} file must not be there yet
 * @returns {Promise<ReturnType<typeof verifyDatabase>>}
 */
export async function backupLog(directory, file) {
  const { database } = logFiles(directory)
  if (!existsSync(database)) throw corrupt(`there is no ${database}`)
  const partial = `${file}.partial`
  if (existsSync(file)) throw new LogOpenError('UNUSABLE_FILE', `${file} is there already`)
  try {
    rmSync(partial, { force: true })
    closeSync(openSync(partial, 'wx', 0o600))
    await copy(database, partial)
    seal(partial)
    const report = verifyDatabase(partial)
    if (report.damagedSessions.length > 0) throw corrupt(`sessions ${report.damagedSessions.join(', ')}`)
    renameSync(partial, file)
    syncDirectory(path.dirname(path.resolve(file)))
    return report
  } catch (error) {
    throw openFailure(error)
  } finally {
    rmSync(partial, { force: true })
  }
}

/** @param {string} from @param {string} to */
async function copy(from, to) {
  const db = openForReading(from)
  try {
    db.exec('BEGIN')
    db.prepare('SELECT count(*) FROM sqlite_schema').get()
    await db.backup(to, { progress: () => 10_000 })
  } finally {
    db.close()
  }
}

/** One file without a journal, on disk. @param {string} file */
function seal(file) {
  const db = new Database(file)
  try {
    db.pragma('synchronous = FULL')
    db.pragma('journal_mode = DELETE')
    db.prepare('UPDATE log SET log_id = ?').run(randomUUID())
  } finally {
    db.close()
  }
  const handle = openSync(file, 'r+')
  try {
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
}
