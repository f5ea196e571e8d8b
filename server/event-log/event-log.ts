import type { JsonValue } from '../json/lossless.ts'

/** An event about to be appended (core.md §23). `data` must be lossless JSON, or the append throws and nothing is written. */
export interface NewEvent {
  type: string
  data: JsonValue
  /** Epoch milliseconds; the time of the append call when absent. Recovery reuses the last real event's (core.md §23). */
  time?: number
  surfaceOp?: 'append'
  /** Seqs of earlier events of the session; `{ sameAppend: i }` stands for the i-th event of this very append. */
  sourceEventSeqs?: (number | { sameAppend: number })[]
}

/** An event as stored: `seq` counts within its session from 0 without a gap, `position` grows over the whole log. */
export interface StoredEvent {
  readonly type: string
  readonly session: string
  /** The scope that the session belongs to. */
  readonly scope: string
  readonly seq: number
  readonly position: number
  readonly time: number
  readonly data: JsonValue
  readonly surfaceOp?: 'append'
  readonly sourceEventSeqs?: readonly number[]
}

/** The tables beside the events. Each row is a flat object of SQLite's own kinds; `key` columns are the table's primary key. */
export const tables = {
  sessions: { key: ['id'] },
  calls: { key: ['session', 'call_id'] },
  registrations: { key: ['kind', 'scope', 'name'] },
  approvals: { key: ['id'] },
  access_tokens: { key: ['id'] },
  jobs: { key: ['id'] },
  job_numbers: { key: ['kind'] }
} as const satisfies Record<string, { key: readonly string[] }>

export type TableName = keyof typeof tables
export type Cell = string | number | null
export type Row = Record<string, Cell>

/**
 * A change of a side table, made in the transaction of its append. `insert` fails the append when the key is there already
 * (`ConflictError`); `put` inserts, or updates the given columns; `update` changes the given columns of an existing row whose
 * columns equal `where` (compare-and-set), and fails the append with `ConflictError` when there is none; `delete` removes what
 * `row` (its key columns) names. Columns declared `ANY` hold long texts and are compressed; they cannot stand in a `where`.
 */
export interface TableWrite {
  table: TableName
  op: 'insert' | 'put' | 'update' | 'delete'
  /** `{ seqOf: i }` stands for the seq that the i-th event of this append gets. */
  row: Record<string, Cell | { seqOf: number }>
  /** With `update` only: what must hold of the row besides its key. */
  where?: Row
}

/** One atomic unit: all of its events and writes are on disk when the promise resolves, or none of them. */
export interface Append {
  /** The session that the events belong to; needed when there are events. Its row must exist or be inserted here. */
  session?: string
  /** When given, the session must belong to this scope, else `UNKNOWN_SESSION`. */
  scope?: string
  events?: readonly NewEvent[]
  writes?: readonly TableWrite[]
  /** A result, a decision or an end: it may use the disk reserve when the disk is full (reliability.md C6). */
  closing?: boolean
}

/**
 * Events of this page, oldest first, and the log's head at the time of reading. A page ends early at `maxBytes` of data, so a short
 * page is not the end; the absence of `next` is.
 */
export interface EventPage {
  events: StoredEvent[]
  /** Last position of the log (-1 when empty); with `session`, the last seq of that session. */
  head: number
  /** The oldest seq (or position) still kept, when events after `after` were pruned. */
  oldest?: number
  /** The `after` of the next page; absent when this page reaches the head. */
  next?: number
  /** Sessions whose events were left out of a page over many sessions, because they are damaged. */
  damaged?: string[]
}

export interface EventQuery {
  /** With it `after` is a seq of this session, else a position. Exclusive; -1 reads from the start. */
  session?: string
  /** Only sessions of these scopes. */
  scopes?: readonly string[]
  after: number
  /** 1 to 500. */
  limit: number
  /** Characters of data after which the page ends; 8 MiB by default. A page holds one event at least. */
  maxBytes?: number
  /** Exact types, or prefixes ending in `*`. */
  types?: readonly string[]
}

/** Which stored sessions to list, in order of their ids. */
export interface SessionQuery {
  /** Only sessions of these scopes. */
  scopes?: readonly string[]
  /** The id after which to begin; the empty text is the start. */
  after: string
  /** 1 or more. */
  limit: number
}

/** Rows of `sessions`: id, scope, cwd, created_at, turn, turn_open. A page may be short before the end; the absence of `next` is the end. */
export interface SessionPage {
  rows: Row[]
  /** The `after` of the next page. */
  next?: string
}

/** Health of the store, for readiness and for refusing calls before they start. */
export type LogState = 'open' | 'unavailable' | 'closed'

/**
 * The event log seam (architecture.md §5). One append path assigns `seq` and `position`; an append resolves once it is durable
 * and rejects with `StoreUnavailableError` when it could not be made so; commit listeners run in order of position, after the
 * commit and before the append's promise resolves.
 */
export interface EventLog {
  readonly logId: string
  readonly state: LogState
  /** Last committed position, -1 when empty. */
  readonly head: number
  append(request: Append): Promise<readonly StoredEvent[]>
  read(query: EventQuery): Promise<EventPage>
  /** Rows of a side table whose columns equal `where`; ordered by rowid; at most `limit` (default 1000). */
  rows(table: TableName, where: Row, limit?: number): Promise<Row[]>
  sessions(query: SessionQuery): Promise<SessionPage>
  /** Ids, in order, of sessions with an open turn, or with a call that has not ended and waits for nobody; at most `limit`. */
  unfinishedSessions(after: string, limit: number): Promise<string[]>
  /** Seq of the session's last event of this type, -1 when none is kept. */
  lastSeq(session: string, type: string): Promise<number>
  /** Listeners get each commit's events; the returned undo removes the listener. Throws of a listener are contained. */
  onCommit(listener: (events: readonly StoredEvent[]) => void): () => void
  onState(listener: (state: LogState) => void): () => void
  /**
   * The session as `session.jsonl.zstd` (backends.md §14, C82), in chunks of whole zstd frames: a header line, then one event a
   * line. `UNKNOWN_SESSION` when there is none.
   */
  exportSession(session: string): AsyncIterable<Uint8Array>
  /** Deletes a session's events before `beforeSeq`; a reader that points before it learns `oldest` (reliability.md §2.5). */
  prune(session: string, beforeSeq: number): Promise<void>
  /** Makes what was appended so far durable, then lets go of every file. */
  close(): Promise<void>
}

/** The append is not durable: nothing of it may be acknowledged. */
export class StoreUnavailableError extends Error {
  override readonly name = 'StoreUnavailableError'
}

/** Where a key was taken: `events` when a call or its result is recorded already (core.md §23: at most one each). */
export type ConflictTable = TableName | 'events'

/** An `insert` met an existing key, or an `update` no row that it may change. */
export class ConflictError extends Error {
  override readonly name = 'ConflictError'
  readonly table: ConflictTable

  constructor(table: ConflictTable, message: string) {
    super(message)
    this.table = table
  }
}
