import type { EventLog, Row } from '../event-log/event-log.ts'
import type { JsonValue } from '../json/lossless.ts'
import type { Session } from '../sessions/session.ts'
import { type CallAnswer, readResultEvent, type StoredOutcome } from './answer.ts'

/** A call as the log knows it: its row, and its answer once it is done. */
export interface StoredCall {
  name: string
  argumentsHash: string
  state: string
  answer?: CallAnswer
}

/** Reads a call back from the log (api.md §2): the outcome from its row, content and meta from its `tool/result`. */
export async function readStoredCall(log: EventLog, session: Session, callId: string): Promise<StoredCall | undefined> {
  const [row] = await log.rows('calls', { session: session.id, call_id: callId }, 1)
  if (row === undefined) return undefined
  const call = { name: String(row['name']), argumentsHash: String(row['args_hash']), state: String(row['state']) }
  if (call.state !== 'done') return call
  const answer = await readAnswer(log, session, row)
  return answer === undefined ? call : { ...call, answer }
}

async function readAnswer(log: EventLog, session: Session, row: Row): Promise<CallAnswer | undefined> {
  const resultSeq = Number(row['result_seq'])
  const page = await log.read({ session: session.id, after: resultSeq - 1, limit: 1 })
  const event = page.events.find(({ seq }) => seq === resultSeq)
  if (event === undefined) return undefined
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
    ...outcome,
    ...readResultEvent(event.data)
  }
}
