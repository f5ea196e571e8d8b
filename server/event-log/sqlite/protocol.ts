import type { AdmittedEvent } from '../admission.ts'
import type { Cell, EventQuery, LogState, Row, SessionQuery, TableName, TableWrite } from '../event-log.ts'

/** An append as the writer thread gets it. */
export interface WireAppend {
  session: string | undefined
  scope: string | undefined
  closing: boolean
  events: WireNewEvent[]
  writes: WireWrite[]
}

/** The data as text. A list, as those below: to copy an object from thread to thread costs twice as much, for the names of its members. */
export type WireNewEvent = [
  type: string,
  time: number,
  text: string,
  callId: string | null,
  surfaceOp: 'append' | null,
  sources: AdmittedEvent['sources']
]

/** All of a change of a side table but its cells. Changes alike share one object, which a message then holds once. */
export interface WriteShape {
  /** Another number for another shape. */
  readonly id: number
  readonly table: TableName
  readonly op: TableWrite['op']
  readonly columns: readonly string[]
  /** Where in the cells there are indices of events (`seqOf`). */
  readonly seqs: readonly number[]
  readonly conditions: readonly string[]
}

/** The cells are those of the columns, then those of the conditions. */
export type WireWrite = [shape: WriteShape, cells: readonly Cell[]]

/** `seq` and `position` are those of the append's first event. */
export type WireResult =
  | [scope: string, seq: number, position: number]
  | {
      reason: 'conflict' | 'invalid' | 'unknown-session' | 'damaged' | 'unavailable'
      message: string
      table: string
    }

/** What a thread is started with. */
export interface WriterOptions {
  directory: string
  synchronous: 'full' | 'normal'
  ballastBytes: number
  probeMs: number
  tables: Record<TableName, { readonly key: readonly string[] }>
}

/**
 * One step of retention. `before`: what is older than this time, among the sessions after the place `after` of their table; `bytes`: the
 * oldest events after the position `after`, while more of the file is in use; neither: free pages go back to the file system.
 */
export interface RetentionStep {
  before?: number
  bytes?: number
  /** -1 to begin, else the `next` of the step before. */
  after: number
}

export interface RetentionProgress {
  /** Events deleted. */
  deleted: number
  /** Sessions that have no events any more. */
  emptied: string[]
  /** The `after` of the next step; absent when there is none to make. */
  next?: number | undefined
}

export type ToWriter =
  | { kind: 'batch'; appends: WireAppend[] }
  | { kind: 'reopen' }
  | { kind: 'prune'; id: number; session: string; beforeSeq: number }
  | { kind: 'retain'; id: number; step: RetentionStep }
  | { kind: 'damaged'; session: string }
  | { kind: 'close' }

/** Why nothing can be stored; with `disk-full` closing appends still may be. */
export type Trouble = 'disk-full' | 'io' | 'busy'

export type FromWriter =
  | { kind: 'ready'; logId: string; head: number; damaged: string[]; lostTail: boolean }
  | { kind: 'refused'; code: string; message: string }
  | { kind: 'acks'; results: WireResult[] }
  | { kind: 'done'; id: number; value?: unknown; error?: string }
  | { kind: 'state'; state: LogState; trouble?: Trouble; message?: string }
  | { kind: 'reopen?' }
  | { kind: 'fatal'; message: string }
  | { kind: 'warning'; message: string; details: Record<string, Cell> }
  | { kind: 'closed' }

/** An event as read: the data as text. */
export interface WireEvent {
  position: number
  session: string
  scope: string
  seq: number
  type: string
  time: number
  surface_op: 'append' | null
  sources: string | null
  text: string
}

export interface WirePage {
  events: WireEvent[]
  head: number
  oldest?: number
  next?: number
  damaged: string[]
}

export type ReadRequest =
  | { kind: 'page'; query: EventQuery }
  | { kind: 'rows'; table: TableName; where: Row; limit: number }
  | { kind: 'sessions'; query: SessionQuery }
  | { kind: 'unfinished'; after: string; limit: number }
  | { kind: 'last-seq'; session: string; type: string }
  | { kind: 'export'; session: string; after: number }
  | { kind: 'suspend' }

export type FromReader =
  | { id: number; value: unknown }
  | {
      id: number
      error: { reason: 'damaged' | 'invalid' | 'unavailable'; session: string | undefined; message: string }
    }
