import type { TableWrite } from '../event-log/event-log.ts'
import { stringifyJson } from '../json/serialize.ts'
import type { JsonValue } from '../json/lossless.ts'
import type { Session } from '../sessions/session.ts'
import type { StepRef } from '../sessions/turns.ts'
import type { StoredOutcome } from './answer.ts'
import type { PlannedCall } from './live-call.ts'

/** The row of a call that is to be started later (core.md §23, *accepted*). */
export const acceptedWrite = (session: Session, ref: StepRef, call: PlannedCall): TableWrite => ({
  table: 'calls',
  op: 'insert',
  row: { ...firstColumns(session, ref, call), state: 'accepted', accepted_at: Date.now() }
})

/** The row of a call whose `tool/call` is the event `seqOf` of the same append. Fails the append when the call was started before. */
export function startedWrite(
  { session, ref, isAccepted }: { session: Session; ref: StepRef; isAccepted: boolean },
  call: PlannedCall,
  { seqOf, startedAt }: { seqOf: number; startedAt: number }
): TableWrite {
  const started = { state: 'started', call_seq: { seqOf }, started_at: startedAt }
  if (isAccepted) {
    const row = { session: session.id, call_id: call.callId, ...started }
    return { table: 'calls', op: 'update', row, where: { state: 'accepted' } }
  }
  return {
    table: 'calls',
    op: 'insert',
    row: { ...firstColumns(session, ref, call), accepted_at: startedAt, ...started }
  }
}

/** The end of a call whose `tool/result` is the event `seqOf` of the same append. */
export const doneWrite = (
  session: Session,
  { callId }: PlannedCall,
  { outcome, seqOf, durationMs }: { outcome: StoredOutcome; seqOf: number; durationMs: number }
): TableWrite => ({
  table: 'calls',
  op: 'update',
  row: {
    session: session.id,
    call_id: callId,
    state: 'done',
    result_seq: { seqOf },
    duration_ms: durationMs,
    outcome: stringifyJson(outcome as unknown as JsonValue)
  }
})

function firstColumns(session: Session, { turn, step }: StepRef, { callId, name, argumentsHash }: PlannedCall) {
  return { session: session.id, call_id: callId, name, args_hash: argumentsHash, turn, step }
}
