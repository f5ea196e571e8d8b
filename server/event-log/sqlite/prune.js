import { setImmediate as nextTurn } from 'node:timers/promises'
import { failpoint } from './failpoint.js'

// Rows of one transaction: appends that wait meanwhile are served between two of them (reliability.md §2.5).
const rowsAtOnce = 500
const sessionsAtOnce = 500
const pagesAtOnce = 200

/** @typedef {import('./protocol.ts').RetentionStep} RetentionStep */
/** @typedef {import('./protocol.ts').RetentionProgress} RetentionProgress */
/** @typedef {{ rows: number, ends: Map<string, number>, next: number | undefined }} Found how much of which session may go */

/**
 * Deletes the oldest events of sessions, with what belongs to them: the rows of calls that ended in them and of approvals decided by
 * then. The chain of the rest goes on from the hash of the last one deleted, and the log keeps its head and how far it was pruned.
 * @param {import('better-sqlite3').Database} db
 * @param {ReturnType<typeof import('./appender.js').openAppender>} appender
 */
export function openPruner(db, appender) {
  const firstSeq = db.prepare('SELECT min(seq) FROM events WHERE session = ?').pluck()
  const lastBefore = db.prepare(
    'SELECT position, seq, time, hash FROM events WHERE session = ? AND seq < ? ORDER BY seq DESC LIMIT 1'
  )
  const removeCalls = db.prepare(
    `DELETE FROM calls WHERE session = :session AND state = 'done' AND call_id IN
      (SELECT call_id FROM events WHERE session = :session AND seq < :end AND type = 'tool/result')`
  )
  const removeApprovals = db.prepare(
    `DELETE FROM approvals WHERE session = ? AND state <> 'pending' AND created_at <= ?`
  )
  const removeEvents = db.prepare('DELETE FROM events WHERE session = ? AND seq < ?')
  const keep = db.prepare('UPDATE sessions SET first_seq = ?, anchor = ? WHERE id = ?')
  const record = db.prepare('UPDATE log SET head = max(head, ?), pruned = max(pruned, ?)')

  /**
   * At most `rowsAtOnce` events of one session; how many it were.
   * @param {string} session
   * @param {number} beforeSeq
   */
  function remove(session, beforeSeq) {
    const first = /** @type {number | null} */ (firstSeq.get(session))
    if (first === null) return 0
    const last = /** @type {{ position: number, seq: number, time: number, hash: Buffer } | undefined} */ (
      lastBefore.get(session, Math.min(first + rowsAtOnce, beforeSeq))
    )
    if (last === undefined) return 0
    record.run(appender.head.position, last.position)
    removeCalls.run({ session, end: last.seq + 1 })
    removeApprovals.run(session, last.time)
    const { changes } = removeEvents.run(session, last.seq + 1)
    keep.run(last.seq + 1, last.hash.toString('hex'), session)
    appender.forget(session)
    return changes
  }

  const chunk = db.transaction(remove)
  const oldSessions = db.prepare(
    `SELECT s.rowid AS place, s.id, s.first_seq AS first, e.time FROM sessions s
      LEFT JOIN events e ON e.session = s.id AND e.seq = s.first_seq WHERE s.rowid > ? ORDER BY s.rowid LIMIT ?`
  )
  const timesOf = db.prepare('SELECT seq, time FROM events WHERE session = ? ORDER BY seq LIMIT ?')
  const oldestEvents = db.prepare(
    'SELECT position, session, seq, octet_length(data) AS bytes FROM events WHERE position > ? ORDER BY position LIMIT ?'
  )
  const isBusy = db.prepare(`SELECT EXISTS (SELECT 1 FROM calls WHERE state <> 'done' AND session = ?)`).pluck()

  /**
   * What is older than `before` among the sessions after a place in their table. An event that says it is newer keeps those behind it:
   * a clock that was wrong for a while must not take fresh events along.
   * @param {number} before
   * @param {number} after
   * @returns {Found}
   */
  function olderThan(before, after) {
    const ends = new Map()
    let rows = 0
    const sessions = /** @type {{ place: number, id: string, first: number, time: number | null }[]} */ (
      oldSessions.all(after, sessionsAtOnce)
    )
    for (const { place, id, time } of sessions) {
      if (time === null || time >= before || isBusy.get(id) === 1) continue
      const times = /** @type {{ seq: number, time: number }[]} */ (timesOf.all(id, rowsAtOnce - rows))
      const young = times.findIndex((event) => event.time >= before)
      const old = young < 0 ? times : times.slice(0, young)
      rows += old.length
      ends.set(id, (old.at(-1)?.seq ?? -1) + 1)
      // The same session again: there may be more of it.
      if (rows >= rowsAtOnce) return { rows, ends, next: place - 1 }
    }
    const last = sessions.at(-1)
    return { rows, ends, next: sessions.length < sessionsAtOnce ? undefined : last?.place }
  }

  /**
   * The oldest events after a position, until the log is within `bytes`.
   * @param {number} bytes
   * @param {number} after
   * @returns {Found}
   */
  function beyond(bytes, after) {
    const ends = new Map()
    let excess = usedBytes() - bytes
    const events = /** @type {{ position: number, session: string, seq: number, bytes: number }[]} */ (
      excess > 0 ? oldestEvents.all(after, rowsAtOnce) : []
    )
    let rows = 0
    for (const event of events) {
      if (excess <= 0) break
      rows += 1
      after = event.position
      if (isBusy.get(event.session) === 1) continue
      ends.set(event.session, event.seq + 1)
      excess -= event.bytes
    }
    return { rows, ends, next: rows < rowsAtOnce ? undefined : after }
  }

  /** What is in use; free pages inside the file are not counted. */
  function usedBytes() {
    const [pages, free, size] = ['page_count', 'freelist_count', 'page_size'].map((name) =>
      Number(db.pragma(name, { simple: true }))
    )
    return ((pages ?? 0) - (free ?? 0)) * (size ?? 0)
  }

  const step = db.transaction((/** @type {RetentionStep} */ { before, bytes, after }) => {
    const { ends, next } = before === undefined ? beyond(bytes ?? Infinity, after) : olderThan(before, after)
    const emptied = []
    let deleted = 0
    for (const [session, end] of ends) {
      deleted += remove(session, end)
      if (firstSeq.get(session) === null) emptied.push(session)
    }
    failpoint('mid-retention')
    return { deleted, emptied, next }
  })

  return {
    /** @param {string} session @param {number} beforeSeq */
    async prune(session, beforeSeq) {
      while (chunk.immediate(session, beforeSeq) > 0) await nextTurn()
    },
    /**
     * One transaction of retention; with neither bound, some free pages are given back to the file system instead.
     * @param {RetentionStep} request
     * @returns {RetentionProgress}
     */
    retain(request) {
      if (request.before !== undefined || request.bytes !== undefined) {
        const progress = step.immediate(request)
        failpoint('after-retention')
        return progress
      }
      db.pragma(`incremental_vacuum(${pagesAtOnce})`)
      const free = Number(db.pragma('freelist_count', { simple: true }))
      return { deleted: 0, emptied: [], next: free > pagesAtOnce ? free : undefined }
    }
  }
}
