import { setImmediate as nextTurn } from 'node:timers/promises'

// Rows of one transaction: appends that wait meanwhile are served between two of them (reliability.md §2.5).
const rowsAtOnce = 500
const pagesAtOnce = 200

/**
 * Deletes a session's oldest events. The chain of the rest goes on from the hash of the last one deleted, and the log keeps its
 * head and how far it was pruned.
 * @param {import('better-sqlite3').Database} db
 * @param {ReturnType<typeof import('./appender.js').openAppender>} appender
 */
export function openPruner(db, appender) {
  const bounds = db.prepare('SELECT min(seq) AS first, max(seq) AS last FROM events WHERE session = ?')
  const anchorOf = db.prepare('SELECT position, hash FROM events WHERE session = ? AND seq = ?')
  const remove = db.prepare('DELETE FROM events WHERE session = ? AND seq < ?')
  const keep = db.prepare('UPDATE sessions SET first_seq = ?, anchor = ? WHERE id = ?')
  const record = db.prepare('UPDATE log SET head = max(head, ?), pruned = max(pruned, ?)')

  const chunk = db.transaction((/** @type {string} */ session, /** @type {number} */ beforeSeq) => {
    const { first, last } = /** @type {{ first: number | null, last: number | null }} */ (bounds.get(session))
    if (first === null || last === null || first >= beforeSeq) return false
    const end = Math.min(first + rowsAtOnce, beforeSeq, last + 1)
    const anchor = /** @type {{ position: number, hash: Buffer }} */ (anchorOf.get(session, end - 1))
    record.run(appender.head.position, anchor.position)
    remove.run(session, end)
    keep.run(end, anchor.hash.toString('hex'), session)
    appender.forget(session)
    return true
  })

  return async (/** @type {string} */ session, /** @type {number} */ beforeSeq) => {
    while (chunk.immediate(session, beforeSeq)) await nextTurn()
    db.pragma(`incremental_vacuum(${pagesAtOnce})`)
  }
}
