import { closeSync, openSync, readFileSync, readSync, statSync } from 'node:fs'
import { configFromOptions, configOptions } from '../command-line.ts'
import { defineCommand } from './command.ts'
import { jsonOption } from './connection.ts'

/** What was read and found sound: a log, a backup, or one session that was exported. */
interface Sound {
  readonly path: string
  readonly session?: string
  readonly sessions?: number
  readonly events: number
}

export const verify = defineCommand({
  name: 'verify',
  usage: '[DIR|FILE]',
  summary: 'read an event log, a backup or an exported session from end to end',
  details: [
    'Without an argument it is the log of the configured home; a server may be using it. What is damaged is said on standard error, and the exit code is 74.'
  ],
  options: { ...configOptions, ...jsonOption },
  examples: [
    ['verify', 'the log of ~/.toolwright'],
    ['verify /backups/toolwright.db', 'a backup'],
    ['verify session.jsonl.zstd', 'an export']
  ],
  run: async ({ values, positionals, env, out }) => {
    const sound = await read(positionals[0] ?? configFromOptions(values, env).config.home)
    const { path, session, sessions, events } = sound
    if (values.json) out.json(sound)
    else if (session === undefined) out.line(`${path}: ${sessions} sessions, ${events} events, all sound`)
    else out.line(`${path}: session ${session}, ${events} events, sound`)
  }
})

async function read(path: string): Promise<Sound> {
  const { LogOpenError } = await import('../event-log/sqlite/open-error.js')
  const found = statSync(path, { throwIfNoEntry: false })
  if (found === undefined) throw new LogOpenError('UNUSABLE_FILE', `there is no ${path}`)
  if (found.isFile() && startOf(path) !== 'SQLite format 3\0') return readExport(path)
  const { verifyDatabase, verifyLog } = await import('../event-log/sqlite/verify-log.js')
  const { sessions, events, damagedSessions } = found.isFile() ? verifyDatabase(path) : verifyLog(path)
  if (damagedSessions.length > 0) {
    const count = `${damagedSessions.length} of ${sessions}`
    throw new LogOpenError('LOG_CORRUPT', `${path}: ${count} sessions are damaged: ${damagedSessions.join(', ')}`)
  }
  return { path, sessions, events }
}

async function readExport(path: string): Promise<Sound> {
  const { ExportError, verifyExport } = await import('../event-log/verify-export.ts')
  const { session, events, isTorn } = verifyExport(readFileSync(path))
  if (isTorn) throw new ExportError('EXPORT_CORRUPT', `${path}: session ${session} breaks off after ${events} events`)
  return { path, session, events }
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
