import { existsSync } from 'node:fs'
import { openForWriting } from './connection.js'
import { logFiles } from './files.js'
import { holdLock } from './lock.js'
import { migrate, migrationsDirectory, readMigrations } from './migrator.js'
import { openFailure } from './store.js'
import { checkDatabase, corrupt } from './verify.js'

/**
 * Brings the log of a directory up to date without serving it, as a start does too. Throws `LogOpenError`.
 * @param {string} directory
 * @returns {{ from: number, to: number }} versions of the database
 */
export function migrateLog(directory) {
  const { database, lock } = logFiles(directory)
  if (!existsSync(database)) throw corrupt(`there is no ${database}`)
  const migrations = readMigrations(migrationsDirectory())
  /** @type {import('better-sqlite3').Database | undefined} */
  let db
  const release = holdLock(lock)
  try {
    db = openForWriting(database, 'full')
    checkDatabase(db)
    const from = Number(db.pragma('user_version', { simple: true }))
    migrate(db, database, migrations)
    return { from, to: migrations.length }
  } catch (error) {
    throw openFailure(error)
  } finally {
    db?.close()
    release()
  }
}
