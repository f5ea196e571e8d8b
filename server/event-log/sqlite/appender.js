import { pack } from '../blobs.js'
import { chainHash, genesis } from './chain.js'
import { failpoint, failpointAtCommit } from './failpoint.js'
import { RefusedWrite } from './side-tables.js'

// Sessions whose last event is remembered; beyond it the memory starts afresh.
const rememberedTails = 20_000

/** @typedef {import('./protocol.ts').WireAppend} WireAppend */
/** @typedef {import('./protocol.ts').WireResult} WireResult */
/** @typedef {import('./protocol.ts').WireWrite} WireWrite */
/** @typedef {{ scope: string, seq: number, hash: Buffer }} Tail */

/**
 * The one append path: assigns `seq` and `position` and links the hash chain. A batch is one transaction; an append that is
 * refused leaves nothing behind while the others of its batch commit.
 * @param {import('better-sqlite3').Database} db
 * @param {ReturnType<typeof import('./side-tables.js').openSideTables>} sideTables
 * @param {Set<string>} damaged sessions that take no more events
 */
export function openAppender(db, sideTables, damaged) {
  const savepoint = db.prepare('SAVEPOINT one_append')
  const release = db.prepare('RELEASE one_append')
  const rollback = db.prepare('ROLLBACK TO one_append')
  const findSession = db.prepare('SELECT scope, first_seq, anchor FROM sessions WHERE id = ?')
  const findTail = db.prepare('SELECT seq, hash FROM events WHERE session = ? ORDER BY seq DESC LIMIT 1')
  const insertEvent = db.prepare(
    'INSERT INTO events (position, session, seq, type, time, call_id, surface_op, sources, data, prev_hash, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)'
  )
  const keepHead = db.prepare('UPDATE log SET head = max(head, ?)')
  const stored = /** @type {{ head: number, hash: Buffer | null }} */ (
    db
      .prepare(
        'SELECT max(log.head, coalesce((SELECT max(position) FROM events), -1)) AS head, (SELECT hash FROM events ORDER BY position DESC LIMIT 1) AS hash FROM log'
      )
      .get()
  )
  let head = { position: stored.head, hash: stored.hash ?? genesis }
  /** @type {Map<string, Tail>} */
  const tails = new Map()

  /** @param {string} session @returns {Tail} */
  function tailOf(session) {
    const known = tails.get(session)
    if (known !== undefined) return known
    const row = /** @type {{ scope: string, first_seq: number, anchor: string | null } | undefined} */ (
      findSession.get(session)
    )
    if (row === undefined) throw new RefusedWrite('unknown-session', `no session ${session}`)
    const last = /** @type {{ seq: number, hash: Buffer } | undefined} */ (findTail.get(session))
    if (last !== undefined) return { scope: row.scope, ...last }
    return {
      scope: row.scope,
      seq: row.first_seq - 1,
      hash: row.anchor === null ? genesis : Buffer.from(row.anchor, 'hex')
    }
  }

  /**
   * @param {WireAppend} append
   * @param {(write: WireWrite) => boolean} isOutdated whether a later append of the same transaction writes the same columns
   * @returns {WireResult}
   */
  function write({ session, scope, events, writes }, isOutdated) {
    // The session's row comes first: a new one is what its events and other rows refer to.
    for (const each of writes) {
      if (!isSessionRow(each) || isOutdated(each)) continue
      sideTables.apply(each, Number.NaN)
      if (each[0].columns.includes('scope')) tails.delete(idOf(each))
    }
    const tail = session === undefined ? undefined : tailOf(session)
    for (const each of writes) {
      if (isSessionRow(each)) continue
      sideTables.apply(each, (tail?.seq ?? -1) + 1)
      if (each[0].table !== 'sessions') continue
      // The newest positions may go with a session; they must not be given twice.
      keepHead.run(head.position)
      tails.delete(idOf(each))
    }
    if (session === undefined || tail === undefined) return ['', 0, 0]
    if (damaged.has(session)) throw new RefusedWrite('damaged', `session ${session} is damaged`)
    if (scope !== undefined && scope !== tail.scope)
      throw new RefusedWrite('unknown-session', `no session ${session} in ${scope}`)
    const firstSeq = tail.seq + 1
    const firstPosition = head.position + 1
    let { hash } = tail
    let { position } = head
    for (const [index, [type, time, text, callId, surfaceOp, sources]] of events.entries()) {
      const seq = firstSeq + index
      position = firstPosition + index
      const cited = sources === null ? null : JSON.stringify(citedSeqs(sources, firstSeq, seq))
      const previous = hash
      const columns = {
        position,
        session,
        seq,
        type,
        time,
        call_id: callId,
        surface_op: surfaceOp,
        sources: cited,
        text
      }
      hash = chainHash(previous, columns)
      const data = pack(text)
      insertEvent.run(position, session, seq, type, time, callId, surfaceOp, cited, data, previous, hash)
      if (typeof data !== 'string') failpoint('mid-blob-write')
    }
    if (events.length === 0) return [tail.scope, firstSeq, firstPosition]
    head = { position, hash }
    tails.set(session, { scope: tail.scope, seq: tail.seq + events.length, hash })
    return [tail.scope, firstSeq, firstPosition]
  }

  /** @param {WireAppend} append @returns {WireResult} */
  function writeOrRefuse(append) {
    const before = head
    savepoint.run()
    try {
      const result = write(append, () => false)
      release.run()
      return result
    } catch (error) {
      const refusal = refusalOf(error)
      if (refusal === undefined) throw error
      rollback.run()
      release.run()
      head = before
      tails.clear()
      return refusal
    }
  }

  // A savepoint for each append costs as much as the append itself (48 against 25 µs of CPU in batches of 64), and hardly ever is one
  // refused: so the batch is first tried without.
  const plain = db.transaction((/** @type {readonly WireAppend[]} */ appends) => {
    // Each call of a session writes its row, and the last one is what stays.
    /** @type {Map<string, WireWrite>} */
    const newest = new Map()
    for (const { writes } of appends) for (const each of writes) if (isUpdate(each)) newest.set(idOf(each), each)
    const isOutdated = (/** @type {WireWrite} */ each) => {
      const last = isUpdate(each) ? newest.get(idOf(each)) : undefined
      return last !== undefined && last !== each && last[0].id === each[0].id
    }
    return writeAll(appends, (append) => write(append, isOutdated))
  })
  const guarded = db.transaction((/** @type {readonly WireAppend[]} */ appends) => writeAll(appends, writeOrRefuse))

  /** @param {readonly WireAppend[]} appends @param {(append: WireAppend) => WireResult} writeOne */
  function writeAll(appends, writeOne) {
    const results = appends.map(writeOne)
    failpointAtCommit('before', appends)
    return results
  }

  /** @param {readonly WireAppend[]} appends */
  function transaction(appends) {
    const before = head
    try {
      return plain.immediate(appends)
    } catch (error) {
      if (refusalOf(error) === undefined) throw error
      head = before
      tails.clear()
      return guarded.immediate(appends)
    }
  }

  return {
    get head() {
      return head
    },
    /**
     * Results in order. Throws when the batch as a whole could not be committed; then nothing of it is stored.
     * @param {readonly WireAppend[]} appends
     */
    commit(appends) {
      if (tails.size > rememberedTails) tails.clear()
      const before = head
      try {
        const results = transaction(appends)
        failpointAtCommit('after', appends)
        return results
      } catch (error) {
        head = before
        tails.clear()
        throw error
      }
    },
    /** A commit that changes nothing: whether the database takes one. */
    touch() {
      keepHead.run(head.position)
    },
    /** Forgets what is remembered of a session whose rows another statement changed. @param {string} session */
    forget(session) {
      tails.delete(session)
    }
  }
}

/** @param {WireWrite} write */
const isSessionRow = ([{ table, op }]) => table === 'sessions' && op !== 'delete'

/** @param {WireWrite} write */
const isUpdate = (write) => isSessionRow(write) && write[0].op === 'put' && write[0].conditions.length === 0

/** @param {WireWrite} write */
const idOf = ([{ columns }, cells]) => String(cells[columns.indexOf('id')])

/**
 * @param {NonNullable<WireAppend['events'][number][5]>} sources
 * @param {number} firstSeq
 * @param {number} seq
 */
function citedSeqs(sources, firstSeq, seq) {
  const cited = sources.map((source) => (typeof source === 'object' ? firstSeq + source.sameAppend : source))
  if (cited.some((source) => source >= seq)) throw new RefusedWrite('invalid', 'a source must be an earlier event')
  if (new Set(cited).size < cited.length) throw new RefusedWrite('invalid', 'a source stands twice')
  return cited
}

/**
 * What is the append's own fault; anything else is the database's.
 * @param {unknown} error
 * @returns {WireResult | undefined}
 */
function refusalOf(error) {
  if (error instanceof RefusedWrite) return { reason: error.reason, message: error.message, table: error.table }
  const { code = '', message } = /** @type {{ code?: string, message: string }} */ (error)
  if (code === 'SQLITE_CONSTRAINT_UNIQUE' || code === 'SQLITE_CONSTRAINT_PRIMARYKEY') {
    return { reason: 'conflict', message, table: /failed: (\w+)\./.exec(message)?.[1] ?? '' }
  }
  const isItsFault = code === '' || /^SQLITE_(CONSTRAINT|MISMATCH|TOOBIG|RANGE)/.test(code)
  return isItsFault ? { reason: 'invalid', message, table: '' } : undefined
}
