// What one page looks at, so that a scope with few sessions does not keep other readers waiting.
const scanRows = 5000

/** @typedef {import('../event-log.ts').SessionQuery} SessionQuery */
/** @typedef {import('../event-log.ts').SessionPage} SessionPage */

/**
 * Reads about sessions that a comparison of columns cannot express, each over an index.
 * @param {import('better-sqlite3').Database} db
 */
export function openSessionReader(db) {
  const scanEnd = db.prepare('SELECT id FROM sessions WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?').pluck()
  // The `+` keeps SQLite from collecting and sorting all sessions of the scopes for each page.
  const listed = db.prepare(
    `SELECT id, scope, cwd, created_at, turn, turn_open FROM sessions
      WHERE id > :after AND id <= coalesce(:until, char(1114111))
        AND (:scopes IS NULL OR +scope IN (SELECT value FROM json_each(:scopes)))
      ORDER BY id LIMIT :limit`
  )
  const unfinished = db
    .prepare(
      `SELECT id FROM sessions WHERE turn_open = 1 AND id > :after
        UNION SELECT session FROM calls INDEXED BY calls_not_done
          WHERE state <> 'done' AND state <> 'awaiting-approval' AND session > :after
        ORDER BY 1 LIMIT :limit`
    )
    .pluck()
  const lastSeq = db.prepare('SELECT seq FROM events WHERE session = ? AND type = ? ORDER BY seq DESC LIMIT 1').pluck()

  /**
   * @param {SessionQuery} query
   * @returns {SessionPage}
   */
  function page({ scopes, after, limit }) {
    const until = /** @type {string | undefined} */ (scanEnd.get(after, scanRows - 1))
    const rows = /** @type {import('../event-log.ts').Row[]} */ (
      listed.all({
        after,
        until: until ?? null,
        scopes: scopes === undefined ? null : JSON.stringify(scopes),
        limit: limit + 1
      })
    )
    const kept = rows.slice(0, limit)
    const next = rows.length > limit ? String(kept.at(-1)?.['id']) : until
    return { rows: kept, ...(next === undefined ? {} : { next }) }
  }

  return {
    page,
    /**
     * @param {string} after
     * @param {number} limit
     */
    unfinished: (after, limit) => /** @type {string[]} */ (unfinished.all({ after, limit })),
    /**
     * @param {string} session
     * @param {string} type
     */
    lastSeq: (session, type) => /** @type {number | undefined} */ (lastSeq.get(session, type)) ?? -1
  }
}
