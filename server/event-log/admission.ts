import { deepFreeze } from '../json/deep-freeze.ts'
import { type JsonValue, LosslessJsonError, snapshot } from '../json/lossless.ts'
import { parseJson } from '../json/parse-text.js'
import { stringifyJson } from '../json/serialize.ts'
import type { StrikeOut } from '../json/strike-out.ts'
import { type Append, type NewEvent, tables, type TableWrite } from './event-log.ts'

/** An event that may be written: frozen data, its text, and what the unique indexes need of it. */
export interface AdmittedEvent {
  readonly type: string
  readonly time: number
  readonly value: JsonValue
  readonly text: string
  /** Of a `tool/call` or a `tool/result`. */
  readonly callId: string | null
  readonly surfaceOp: 'append' | null
  /** Seqs as given; `{ sameAppend }` is resolved when the seq is assigned. */
  readonly sources: readonly (number | { sameAppend: number })[] | null
}

export interface AdmittedAppend {
  readonly session: string | undefined
  readonly scope: string | undefined
  readonly closing: boolean
  readonly events: readonly AdmittedEvent[]
  readonly writes: readonly TableWrite[]
}

const mayBeSurface = new Set(['user/message', 'assistant/message', 'tool/result'])

/** Checks everything about an append that needs no look into the log (core.md §23); throws, and then nothing is written. */
export function admit(request: Append, strikeOut?: StrikeOut): AdmittedAppend {
  const { session, scope, events = [], writes = [], closing = false } = request
  if (events.length > 0 && session === undefined) throw new TypeError('an append with events names its session')
  const admitted = events.map(admitEvent)
  if (strikeOut === undefined) return { session, scope, closing, events: admitted, writes }
  return {
    session,
    scope,
    closing,
    events: admitted.map((event) => struckEvent(event, strikeOut)),
    writes: writes.map((write) => struckWrite(write, strikeOut))
  }
}

function struckEvent(event: AdmittedEvent, strikeOut: StrikeOut): AdmittedEvent {
  const text = strikeOut(event.text)
  return text === event.text ? event : { ...event, text, value: deepFreeze(parseJson(text)) }
}

/** What clients register may need a secret to work, and tokens are hashes. */
const keptAsGiven = new Set<TableWrite['table']>(['registrations', 'access_tokens'])

function struckWrite(write: TableWrite, strikeOut: StrikeOut): TableWrite {
  if (keptAsGiven.has(write.table)) return write
  let struck: TableWrite['row'] | undefined
  for (const [column, cell] of Object.entries(write.row)) {
    if (typeof cell !== 'string' || (tables[write.table].key as readonly string[]).includes(column)) continue
    const text = struckCell(cell, strikeOut)
    if (text !== cell) struck = { ...(struck ?? write.row), [column]: text }
  }
  return struck === undefined ? write : { ...write, row: struck }
}

function struckCell(cell: string, strikeOut: StrikeOut): string {
  const isJson = cell.startsWith('{') || cell.startsWith('[')
  return isJson ? strikeOut(cell) : (JSON.parse(strikeOut(JSON.stringify(cell))) as string)
}

function admitEvent(event: NewEvent, index: number): AdmittedEvent {
  const { type, surfaceOp, sourceEventSeqs } = event
  const time = event.time ?? Date.now()
  if (!Number.isSafeInteger(time)) throw new TypeError(`event ${type}: time is not a whole number of milliseconds`)
  if ((surfaceOp !== undefined || sourceEventSeqs !== undefined) && !mayBeSurface.has(type)) {
    throw new TypeError(`event ${type}: only messages and results have a surfaceOp or sources`)
  }
  if (sourceEventSeqs !== undefined) assertSources(type, sourceEventSeqs, index)
  const value = losslessData(event)
  return {
    type,
    time,
    value,
    text: stringifyJson(value),
    callId: callIdOf(type, value),
    surfaceOp: surfaceOp ?? null,
    sources: sourceEventSeqs ?? null
  }
}

function losslessData({ type, data }: NewEvent): JsonValue {
  try {
    return deepFreeze(snapshot(data))
  } catch (error) {
    if (!(error instanceof LosslessJsonError)) throw error
    throw new TypeError(`event ${type}: ${error.message}`, { cause: error })
  }
}

function assertSources(type: string, sources: readonly (number | { sameAppend: number })[], index: number): void {
  if (sources.length === 0 && type !== 'assistant/message')
    throw new TypeError(`event ${type}: an empty list of sources`)
  const seen = new Set<string>()
  for (const source of sources) {
    const within = typeof source === 'object'
    const seq = within ? source.sameAppend : source
    if (!Number.isSafeInteger(seq) || seq < 0) throw new TypeError(`event ${type}: a source is not a seq`)
    if (within && seq >= index) throw new TypeError(`event ${type}: a source must be an earlier event`)
    const key = `${within}:${seq}`
    if (seen.has(key)) throw new TypeError(`event ${type}: a source stands twice`)
    seen.add(key)
  }
}

/** `data.callId` of a call, `data.message.source.callId` of a result. */
function callIdOf(type: string, data: JsonValue): string | null {
  if (type !== 'tool/call' && type !== 'tool/result') return null
  const callId = type === 'tool/call' ? own(data, 'callId') : own(own(own(data, 'message'), 'source'), 'callId')
  if (typeof callId !== 'string') throw new TypeError(`event ${type}: names no call`)
  return callId
}

function own(value: JsonValue | undefined, key: string): JsonValue | undefined {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
  return isObject && Object.hasOwn(value, key) ? value[key] : undefined
}
