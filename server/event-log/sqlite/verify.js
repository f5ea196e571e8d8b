import { unpack } from '../blobs.js'
import { CodecError } from '../zstd.js'
import { chainHash, genesis } from './chain.js'
import { LogOpenError } from './open-error.js'

// What a start may read in full; a larger database is checked at its tail (reliability.md C8).
const quickCheckBytes = 64 * 1024 * 1024
const tailEvents = 1000

/**
 * @typedef {object} EventRow
 * @property {number} position
 * @property {string} session
 * @property {number} seq
 * @property {string} type
 * @property {number} time
 * @property {string | null} call_id
 * @property {'append' | null} surface_op
 * @property {string | null} sources
 * @property {string | Buffer} data
 * @property {Buffer} prev_hash
 * @property {Buffer} hash
 */

export const eventColumns = [
  'position',
  'session',
  'seq',
  'type',
  'time',
  'call_id',
  'surface_op',
  'sources',
  'data',
  'prev_hash',
  'hash'
]
  .map((name) => `e.${name}`)
  .join(', ')

/**
 * The plain text of a row's data, if the row is what was written; else `undefined`.
 * @param {EventRow} row
 */
export function soundText(row) {
  try {
    const text = unpack(row.data)
    return chainHash(row.prev_hash, { ...row, text }).equals(row.hash) ? text : undefined
  } catch (error) {
    if (error instanceof CodecError) throw error
    return undefined
  }
}

/**
 * Refuses a database that SQLite cannot read (`LOG_CORRUPT`).
 * @param {import('better-sqlite3').Database} db
 */
export function checkDatabase(db) {
  const pages = Number(db.pragma('page_count', { simple: true })) * Number(db.pragma('page_size', { simple: true }))
  if (pages > quickCheckBytes) return
  const answer = db.pragma('quick_check(1)', { simple: true })
  if (answer !== 'ok') throw corrupt(String(answer))
}

/** @param {string} what */
export function corrupt(what) {
  return new LogOpenError(
    'LOG_CORRUPT',
    `the event log is damaged (${what}): run "toolwright verify", then restore a backup`
  )
}

/**
 * The sessions that are broken among those with an open turn and those at the log's tail.
 * @param {import('better-sqlite3').Database} db
 * @returns {Set<string>}
 */
export function findDamaged(db) {
  const damaged = new Set()
  const tail = db.prepare(`SELECT ${eventColumns} FROM events e ORDER BY position DESC LIMIT ?`)
  for (const row of tail.iterate(tailEvents)) {
    const event = /** @type {EventRow} */ (row)
    if (soundText(event) === undefined) damaged.add(event.session)
  }
  const open = /** @type {string[]} */ (db.prepare('SELECT id FROM sessions WHERE turn_open = 1').pluck().all())
  for (const session of damagedOf(db, open)) damaged.add(session)
  return damaged
}

/**
 * Walks the whole chain of each session; yields those that are broken.
 * @param {import('better-sqlite3').Database} db
 * @param {Iterable<string>} sessions
 */
export function* damagedOf(db, sessions) {
  const anchor = db.prepare('SELECT first_seq, anchor FROM sessions WHERE id = ?')
  const events = db.prepare(`SELECT ${eventColumns} FROM events e WHERE session = ? ORDER BY seq`)
  for (const session of sessions) {
    const start = /** @type {{ first_seq: number, anchor: string | null }} */ (anchor.get(session))
    let seq = start.first_seq
    /** @type {Buffer} */
    let previous = start.anchor === null ? genesis : Buffer.from(start.anchor, 'hex')
    for (const row of events.iterate(session)) {
      const event = /** @type {EventRow} */ (row)
      if (event.seq !== seq || !event.prev_hash.equals(previous) || soundText(event) === undefined) {
        yield session
        break
      }
      seq += 1
      previous = event.hash
    }
  }
}
