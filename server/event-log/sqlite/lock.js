import Database from 'better-sqlite3'
import { LogOpenError } from './open-error.js'

/**
 * Holds the directory for this process. A lock file of its own, since an exclusive lock on the log would shut out our own
 * readers; a kill -9 frees it (reliability.md, head). Returns the release.
 * @param {string} file
 * @returns {() => void}
 */
export function holdLock(file) {
  const db = new Database(file, { timeout: 0 })
  try {
    db.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    db.close()
    const code = /** @type {{ code?: string }} */ (error).code ?? ''
    if (!code.startsWith('SQLITE_BUSY')) throw error
    throw new LogOpenError('LOCKED', `another server is using the data directory (it holds ${file})`)
  }
  return () => db.close()
}
