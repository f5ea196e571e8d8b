import { RequestError } from '../../errors.ts'
import { type EventFields, storedEvent } from '../../events/stored-event.ts'
import type { AdmittedAppend } from '../admission.ts'
import {
  type Cell,
  ConflictError,
  type ConflictTable,
  type StoredEvent,
  StoreUnavailableError,
  type TableWrite
} from '../event-log.ts'
import type { WireAppend, WireEvent, WireResult, WireWrite, WriteShape } from './protocol.ts'

/** Without the values of events: only their text goes to the writer thread. */
export function toWire({ session, scope, closing, events, writes }: AdmittedAppend): WireAppend {
  return {
    session,
    scope,
    closing,
    events: events.map(({ type, time, text, callId, surfaceOp, sources }) => [
      type,
      time,
      text,
      callId,
      surfaceOp,
      sources
    ]),
    writes: writes.map(writeToWire)
  }
}

/** The shapes met so far, as a tree by operation, table and columns: to look one up makes no text of them. */
interface Shapes {
  readonly next: Map<string, Shapes>
  shape?: WriteShape
}

const known: Shapes = { next: new Map() }
let lastId = 0

function writeToWire({ table, op, row, where = {} }: TableWrite): WireWrite {
  const cells: Cell[] = []
  let at = step(step(known, op), table)
  for (const name in row) {
    const cell = row[name]!
    const isSeq = typeof cell === 'object' && cell !== null
    at = step(isSeq ? step(at, '+') : at, name)
    cells.push(isSeq ? cell.seqOf : cell)
  }
  for (const name in where) {
    at = step(step(at, '?'), name)
    cells.push(where[name]!)
  }
  at.shape ??= shapeOf({ table, op, row, where })
  return [at.shape, cells]
}

function step({ next }: Shapes, name: string): Shapes {
  let found = next.get(name)
  if (found === undefined) {
    found = { next: new Map() }
    next.set(name, found)
  }
  return found
}

function shapeOf({ table, op, row, where = {} }: TableWrite): WriteShape {
  const columns = Object.keys(row)
  const seqs = [...columns.keys()].filter((at) => typeof (row[columns[at]!] ?? 0) === 'object')
  return { id: (lastId += 1), table, op, columns, seqs, conditions: Object.keys(where) }
}

/** Why an append was refused, as its caller is told. */
export function refusal(result: Exclude<WireResult, unknown[]> | undefined): Error {
  const { reason = 'unavailable', message = 'no answer', table = '' } = result ?? {}
  if (reason === 'conflict') return new ConflictError(table as ConflictTable, message)
  if (reason === 'unknown-session') return new RequestError('UNKNOWN_SESSION', undefined, { details: message })
  if (reason === 'damaged') return new RequestError('LOG_CORRUPT', message)
  return reason === 'invalid' ? new TypeError(message) : new StoreUnavailableError(message)
}

/** An event that the reader thread sent. */
export function fromWire({ text, surface_op: surfaceOp, sources, ...rest }: WireEvent): StoredEvent {
  const fields: EventFields = {
    ...rest,
    ...(surfaceOp === null ? {} : { surfaceOp }),
    ...(sources === null ? {} : { sourceEventSeqs: Object.freeze(JSON.parse(sources) as number[]) })
  }
  return storedEvent(fields, text)
}
