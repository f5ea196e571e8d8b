import { RequestError } from '../errors.ts'
import type { EventLog, Row } from '../event-log/event-log.ts'
import type { JsonValue } from '../json/lossless.ts'
import type { Session } from '../sessions/session.ts'
import { type CallAnswer, readResultEvent, type StoredOutcome } from './answer.ts'
import type { CallState } from './live-call.ts'
import type { LiveCalls } from './live-calls.ts'

/** A call as the log knows it: its row, and its answer once it is done. */
export interface StoredCall {
  name: string
  argumentsHash: string
  state: CallState
  answer?: CallAnswer
}

/** What `GET /calls/…` answers (api.md §2). */
export interface CallReport {
  callId: string
  session: string
  state: CallState
  result?: CallAnswer
}

const states: ReadonlyMap<unknown, CallState> = new Map([
  ['accepted', 'queued'],
  ['started', 'running'],
  ['awaiting-approval', 'awaiting-approval'],
  ['done', 'done']
])

/** Throws `UNKNOWN_CALL`. */
export async function reportOf(
  { calls, log }: { calls: LiveCalls; log: EventLog },
  session: Session,
  callId: string
): Promise<CallReport> {
  const place = { callId, session: session.id }
  const live = calls.find(session.id, callId)
  if (live !== undefined && live.state !== 'done') return { ...place, state: live.state }
  const stored = await readStoredCall(log, session, callId)
  if (stored === undefined) throw new RequestError('UNKNOWN_CALL')
  return { ...place, state: stored.state, ...(stored.answer === undefined ? {} : { result: stored.answer }) }
}

/** Reads a call back from the log (api.md §2): the outcome from its row, content and meta from its `tool/result`. */
export async function readStoredCall(log: EventLog, session: Session, callId: string): Promise<StoredCall | undefined> {
  const [row] = await log.rows('calls', { session: session.id, call_id: callId }, 1)
  if (row === undefined) return undefined
  const state = states.get(row['state'])
  if (state === undefined) throw new Error(`a call is stored in the state "${row['state']}"`)
  const call = { name: String(row['name']), argumentsHash: String(row['args_hash']), state }
  if (state !== 'done') return call
  const answer = await readAnswer(log, session, row)
  return answer === undefined ? call : { ...call, answer }
}

/** Undefined when the result's event is no longer kept. */
async function readAnswer(log: EventLog, session: Session, row: Row): Promise<CallAnswer | undefined> {
  const resultSeq = Number(row['result_seq'])
  const page = await log.read({ session: session.id, after: resultSeq - 1, limit: 1 })
  const event = page.events.find(({ seq }) => seq === resultSeq)
  if (event === undefined) return undefined
  const { isError, ...rest } = readResultEvent(event.data)
  const outcome = JSON.parse(String(row['outcome'])) as StoredOutcome & Record<string, JsonValue>
  return {
    callId: String(row['call_id']),
    name: String(row['name']),
    scope: session.scope.id,
    session: session.id,
    callSeq: Number(row['call_seq'] ?? -1),
    resultSeq,
    startedAt: Number(row['started_at']),
    durationMs: Number(row['duration_ms']),
    isError,
    ...outcome,
    ...rest
  }
}
