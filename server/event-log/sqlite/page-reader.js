import { eventColumns, soundText } from './verify.js'

// What one page looks at, so that a filter that matches nothing does not keep other readers waiting.
const scanRows = 5000

/** @typedef {import('../event-log.ts').EventQuery} EventQuery */
/** @typedef {import('./protocol.ts').WireEvent} WireEvent */
/** @typedef {import('./protocol.ts').WirePage} WirePage */
/** @typedef {import('./verify.js').EventRow & { scope: string }} ScopedRow */

/** A session's event is not what was written. */
export class DamagedSession extends Error {
  /** @param {string} session */
  constructor(session) {
    super(`session ${session} is damaged`)
    this.session = session
  }
}

/**
 * @param {import('better-sqlite3').Database} db
 * @returns {(query: EventQuery) => WirePage}
 */
export function openPageReader(db) {
  const from = `SELECT ${eventColumns}, s.scope FROM events e JOIN sessions s ON s.id = e.session`
  const filter = `(:scopes IS NULL OR s.scope IN (SELECT value FROM json_each(:scopes)))
    AND (:exact IS NULL OR e.type IN (SELECT value FROM json_each(:exact))
      OR EXISTS (SELECT 1 FROM json_each(:prefixes) WHERE substr(e.type, 1, length(value)) = value))`
  const bySession = db.prepare(
    `${from} WHERE e.session = :session AND e.seq > :after AND e.seq <= :until AND ${filter} ORDER BY e.seq LIMIT :limit`
  )
  const byPosition = db.prepare(
    `${from} WHERE e.position > :after AND e.position <= :until AND ${filter} ORDER BY e.position LIMIT :limit`
  )
  const sessionBounds = db.prepare(
    'SELECT first_seq AS first, coalesce((SELECT max(seq) FROM events WHERE session = id), first_seq - 1) AS head FROM sessions WHERE id = ?'
  )
  const logBounds = db.prepare(
    'SELECT pruned + 1 AS first, max(head, coalesce((SELECT max(position) FROM events), -1)) AS head FROM log'
  )

  return db.transaction((/** @type {EventQuery} */ query) => {
    const { session, scopes, after, limit, types, maxBytes = Infinity } = query
    const bounds = /** @type {{ first: number, head: number } | undefined} */ (
      session === undefined ? logBounds.get() : sessionBounds.get(session)
    )
    const { first, head } = bounds ?? { first: 0, head: -1 }
    // What was pruned of a session is gone in one piece; of the whole log it is gone here and there.
    const start = session === undefined ? after : Math.max(after, first - 1)
    const until = Math.min(head, start + scanRows)
    const rows = /** @type {IterableIterator<ScopedRow>} */ (
      (session === undefined ? byPosition : bySession).iterate({
        session: session ?? null,
        after: start,
        until,
        limit,
        scopes: scopes === undefined ? null : JSON.stringify(scopes),
        exact: types === undefined ? null : JSON.stringify(types.filter((type) => !type.endsWith('*'))),
        prefixes: JSON.stringify((types ?? []).filter((type) => type.endsWith('*')).map((type) => type.slice(0, -1)))
      })
    )
    /** @type {WirePage} */
    const page = { events: [], head, damaged: [] }
    if (after + 1 < first) page.oldest = first
    const end = collect(rows, page, { session, limit, maxBytes }) ?? until
    if (end < head) page.next = end
    return page
  })
}

/**
 * Fills the page; returns where it stopped when it is full, else `undefined`.
 * @param {IterableIterator<ScopedRow>} rows
 * @param {WirePage} page
 * @param {{ session: string | undefined, limit: number, maxBytes: number }} bounds
 */
function collect(rows, page, { session: only, limit, maxBytes }) {
  let bytes = 0
  let count = 0
  for (const row of rows) {
    const at = only === undefined ? row.position : row.seq
    const text = soundText(row)
    if (text === undefined && only !== undefined) throw new DamagedSession(only)
    if (text === undefined) {
      if (!page.damaged.includes(row.session)) page.damaged.push(row.session)
    } else {
      const { position, session, scope, seq, type, time, surface_op, sources } = row
      page.events.push({ position, session, scope, seq, type, time, surface_op, sources, text })
    }
    bytes += text?.length ?? 0
    count += 1
    if (count === limit || bytes >= maxBytes) return at
  }
  return undefined
}
