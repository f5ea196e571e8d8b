import { CodedError, RequestError } from '../errors.ts'
import {
  type Append,
  type EventLog,
  type EventPage,
  type NewEvent,
  type Row,
  type StoredEvent,
  StoreUnavailableError,
  type TableWrite
} from '../event-log/event-log.ts'
import { stringifyJson } from '../json/serialize.ts'
import type { JsonValue } from '../json/lossless.ts'
import { resultEventData, storedOutcome } from './answer.ts'
import { parseCall } from './plan.ts'
import type { Effect, Failure } from '../pipeline/result.ts'

/** How a call that a dead server left is closed (core.md §23, §30). */
const closings = {
  started: {
    name: 'ToolOutcomeUnknownError',
    code: 'TOOL_OUTCOME_UNKNOWN',
    message:
      'the server stopped while this call was running, so its outcome is unknown; call it again only if it is read-only or idempotent, otherwise verify first',
    effect: 'unknown'
  },
  accepted: {
    name: 'ToolNotStartedError',
    code: 'TOOL_NOT_STARTED',
    message: 'the server stopped before this call was started; it is safe to call it again',
    effect: 'none'
  }
} as const satisfies Record<string, { name: string; code: string; message: string; effect: Effect }>

/** Events read at a time. */
const pageSize = 500

/** Unanswered calls of one session: a server that died had no more than it could run. */
const maxRows = 100_000

/** Sessions that are repaired at a time: their appends share transactions. */
const maxAtOnce = 64

export interface RepairOptions {
  /** Whether a tool is declared idempotent, as a scope sees it: a call of it whose outcome is unknown may be made again (api.md §2). */
  isIdempotent?: (name: string, scopeId: string) => boolean
  /** What failed inside this server, if it did not die: then the turn ends as `error` and not as `interrupted` (core.md §22.7). */
  failure?: unknown
}

/**
 * Closes what a crash, or an append that failed, left open in one session: each unanswered call gets its synthetic result, then the
 * steps and the turn end (core.md §23). A call that waits for an approval keeps its step and the turn open. Nothing dangling: nothing
 * written.
 */
export async function repairSession(log: EventLog, sessionId: string, options: RepairOptions = {}): Promise<void> {
  const closers = await closersOf(log, sessionId, options)
  if (closers !== undefined) await log.append(closers)
}

/** What `repairSession` would append; undefined when nothing dangles. */
export async function closersOf(
  log: EventLog,
  sessionId: string,
  { isIdempotent = () => false, failure }: RepairOptions = {}
): Promise<Append | undefined> {
  const [session] = await log.rows('sessions', { id: sessionId }, 1)
  if (session === undefined) return undefined
  const scope = String(session['scope'])
  const inState = (state: string): Promise<Row[]> => log.rows('calls', { session: sessionId, state }, maxRows)
  const { waiting, unusable } = await waitingCalls(log, await inState('awaiting-approval'))
  const calls = [...(await inState('started')), ...(await inState('accepted')), ...unusable]
  const endsTurn = session['turn_open'] === 1 && waiting.length === 0
  if (calls.length === 0 && !endsTurn) return undefined
  const time = await lastTime(log, sessionId)
  const turn = Number(session['turn'])
  const stays = new Set(waiting.map((row) => Number(row['step'])))
  const steps = (await openSteps(log, sessionId, turn)).filter((step) => !stays.has(step))
  const events: NewEvent[] = [
    ...calls.map((row) => closingEvent(row, time)),
    ...steps.map((step) => ({ type: 'step/end', data: { turn, step }, time }))
  ]
  const writes = calls.map((row, index) => closedCall(row, index, isIdempotent(String(row['name']), scope)))
  if (endsTurn) {
    const reason = failure === undefined ? { kind: 'interrupted' } : { kind: 'error', code: codeOf(failure) }
    events.push({ type: 'turn/end', data: { turn, reason }, time })
    writes.push({ table: 'sessions', op: 'put', row: { id: sessionId, turn_open: 0 } })
  }
  return { session: sessionId, scope, events, writes, closing: true }
}

/** Calls that wait for an approval; one whose arguments were struck out when they were stored cannot go on (api.md §9). */
async function waitingCalls(log: EventLog, rows: readonly Row[]): Promise<{ waiting: Row[]; unusable: Row[] }> {
  const waiting: Row[] = []
  const unusable: Row[] = []
  for (const row of rows) {
    const isIntact = (await storedHash(log, row)) === row['args_hash']
    if (isIntact) waiting.push(row)
    else unusable.push(row)
  }
  return { waiting, unusable }
}

/** Of the arguments as the log has them; undefined when it has no such call. */
async function storedHash(log: EventLog, row: Row): Promise<string | undefined> {
  const seq = Number(row['call_seq'])
  const { events } = await log.read({ session: String(row['session']), after: seq - 1, limit: 1 })
  const event = events.find((each) => each.seq === seq && each.type === 'tool/call')
  if (event === undefined) return undefined
  const { callId, name, arguments: rawArguments } = event.data as { callId: string; name: string; arguments: string }
  return parseCall({ callId, name, rawArguments }).argumentsHash
}

/** Repairs every session that the last server left with an open turn or an unanswered call. Returns how many it looked at. */
export async function recover(log: EventLog, options: RepairOptions = {}): Promise<number> {
  let count = 0
  for (let after: string | undefined = ''; after !== undefined;) {
    const sessions: string[] = await log.unfinishedSessions(after, maxAtOnce)
    await Promise.all(sessions.map((session) => repairSession(log, session, options)))
    count += sessions.length
    after = sessions.at(-1)
  }
  return count
}

/** The code of a failed turn (core.md §30). */
function codeOf(failure: unknown): string {
  if (failure instanceof StoreUnavailableError) return 'STORE_UNAVAILABLE'
  return failure instanceof RequestError || failure instanceof CodedError ? failure.code : 'UNKNOWN'
}

function closing(row: Row): (typeof closings)[keyof typeof closings] {
  return row['state'] === 'started' ? closings.started : closings.accepted
}

function failure(row: Row): Failure {
  const { name, code, message } = closing(row)
  return {
    isError: true,
    error: { message, info: { name, code } },
    content: [{ type: 'text', text: `Error: ${message}` }]
  }
}

function closingEvent(row: Row, time: number): NewEvent {
  const callId = String(row['call_id'])
  const place = { turn: Number(row['turn']), step: Number(row['step']), callId, messageId: `recovered:${callId}` }
  const event: NewEvent = { type: 'tool/result', data: resultEventData(place, failure(row)), surfaceOp: 'append', time }
  return row['call_seq'] === null ? event : { ...event, sourceEventSeqs: [Number(row['call_seq'])] }
}

function closedCall(row: Row, index: number, isIdempotent: boolean): TableWrite {
  const { effect } = closing(row)
  const retryable = effect === 'none' || isIdempotent
  const outcome = stringifyJson(storedOutcome(failure(row), { effect, retryable }) as unknown as JsonValue)
  const key = { session: String(row['session']), call_id: String(row['call_id']) }
  return {
    table: 'calls',
    op: 'put',
    row: { ...key, state: 'done', result_seq: { seqOf: index }, duration_ms: 0, outcome }
  }
}

async function lastTime(log: EventLog, session: string): Promise<number> {
  const { head } = await log.read({ session, after: Number.MAX_SAFE_INTEGER, limit: 1 })
  const page = await log.read({ session, after: Math.max(head - 1, -1), limit: 1 })
  return page.events.at(-1)?.time ?? Date.now()
}

/** The steps of a turn that have a start in the log and no end, in order of their starts. */
export async function openSteps(log: EventLog, session: string, turn: number): Promise<number[]> {
  const open = new Set<number>()
  for (let after: number | undefined = await log.lastSeq(session, 'turn/start'); after !== undefined;) {
    const page: EventPage = await log.read({ session, after, limit: pageSize, types: ['step/start', 'step/end'] })
    for (const event of page.events) note(open, event, turn)
    after = page.next
  }
  return [...open]
}

function note(open: Set<number>, event: StoredEvent, turn: number): void {
  const data = event.data as { turn: number; step: number }
  if (data.turn !== turn) return
  if (event.type === 'step/start') open.add(data.step)
  else open.delete(data.step)
}
