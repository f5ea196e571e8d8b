import { closeSync, openSync, readFileSync, readSync, statSync } from 'node:fs'
import { configFromArguments } from '../command-line.ts'
import { LogOpenError } from '../event-log/sqlite/open-error.js'
import { verifyDatabase, verifyLog } from '../event-log/sqlite/verify-log.js'
import { ExportError, verifyExport } from '../event-log/verify-export.ts'
import { splitArguments } from './arguments.ts'

/**
 * `toolwright verify [DIR|FILE]`: reads a log, a backup or an exported session from end to end. Without an argument it is the log of the
 * configured home; a server may be using it. What is damaged is said on standard error, and the exit code is 74.
 */
export function verify(args: readonly string[], env: NodeJS.ProcessEnv): void {
  const { positionals, options } = splitArguments(args, { least: 0, most: 1, usage: 'verify [DIR|FILE] [options]' })
  const path = positionals[0] ?? configFromArguments(options, env).config.home
  const found = statSync(path, { throwIfNoEntry: false })
  if (found === undefined) throw new LogOpenError('UNUSABLE_FILE', `there is no ${path}`)
  if (found.isFile() && startOf(path) !== 'SQLite format 3\0') return sayExport(path)
  const { sessions, events, damagedSessions } = found.isFile() ? verifyDatabase(path) : verifyLog(path)
  if (damagedSessions.length > 0) {
    const count = `${damagedSessions.length} of ${sessions}`
    throw new LogOpenError('LOG_CORRUPT', `${path}: ${count} sessions are damaged: ${damagedSessions.join(', ')}`)
  }
  process.stdout.write(`${path}: ${sessions} sessions, ${events} events, all sound\n`)
}

function sayExport(path: string): void {
  const { session, events, isTorn } = verifyExport(readFileSync(path))
  if (isTorn) throw new ExportError('EXPORT_CORRUPT', `${path}: session ${session} breaks off after ${events} events`)
  process.stdout.write(`${path}: session ${session}, ${events} events, sound\n`)
}

function startOf(path: string): string {
  const start = Buffer.alloc(16)
  const handle = openSync(path, 'r')
  try {
    readSync(handle, start, 0, start.length, 0)
  } finally {
    closeSync(handle)
  }
  return start.toString('latin1')
}
