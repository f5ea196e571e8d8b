import { openSqliteLog, type SqliteLog, type SqliteLogOptions } from '../../server/event-log/sqlite/log.ts'
import { onTestFinished } from 'vitest'
import { temporaryDirectory } from './temporary-directory.ts'

/** Opens a log that is closed after the test; in a directory of its own unless one is given. */
export async function openTestLog(options: Partial<SqliteLogOptions> = {}): Promise<SqliteLog> {
  const log = await openSqliteLog({ directory: options.directory ?? temporaryDirectory(), ballastBytes: 0, ...options })
  onTestFinished(() => log.close())
  return log
}

/** Makes a session. */
export async function addSession(
  log: SqliteLog,
  id: string,
  more: Record<string, string | number> = {}
): Promise<void> {
  const row = { id, scope: 'global', created_at: 1, ...more }
  await log.append({ session: id, writes: [{ table: 'sessions', op: 'insert', row }] })
}

/** Adds events whose data is `make(n)`. */
export async function addNotes(
  log: SqliteLog,
  session: string,
  count: number,
  make: (n: number) => string = (n) => `note ${n}`
): Promise<void> {
  const events = Array.from({ length: count }, (_, n) => ({ type: 'note', data: make(n) }))
  await log.append({ session, events })
}
