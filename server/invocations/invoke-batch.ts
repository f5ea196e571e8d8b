import { RequestError } from '../errors.ts'
import type { NewEvent, TableWrite } from '../event-log/event-log.ts'
import { runBatch } from '../scheduler/scheduler.ts'
import type { Session } from '../sessions/session.ts'
import type { UserMessage } from '../tools/definition.ts'
import type { CallAnswer } from './answer.ts'
import { type CallEngine, CallRun } from './call-run.ts'
import type { Invocations } from './invoke.ts'
import type { LiveCall } from './live-call.ts'
import { type CallRequest, type ParsedCall, parseCall } from './plan.ts'

/** One model step's calls (api.md §2). */
export interface BatchRequest {
  session: Session
  turn?: number
  step?: number
  calls: readonly CallRequest[]
  signal: AbortSignal
  /** Called with each answer as soon as it is committed, in model order. */
  onAnswer?: (answer: CallAnswer, index: number) => void
}

export interface BatchAnswer {
  results: CallAnswer[]
  additionalContexts: UserMessage[]
  concluded: boolean
}

interface Slot {
  call: ParsedCall
  live: LiveCall
  isNew: boolean
}

/**
 * Runs a batch by core.md §22. A known `callId` in it attaches or replays; one that conflicts, or stands twice, refuses the whole batch
 * before anything runs. With the first append every call is stored as accepted, so that recovery knows the ones that never started.
 */
export async function invokeBatch(
  engine: CallEngine,
  invocations: Invocations,
  maxParallel: number,
  request: BatchRequest
): Promise<BatchAnswer> {
  const { session, signal } = request
  const calls = request.calls.map(parseCall)
  if (new Set(calls.map(({ callId }) => callId)).size < calls.length) {
    throw new RequestError('BAD_REQUEST', 'a callId stands twice in the batch')
  }
  const slots = claimAll(invocations, session, calls)
  const running = lead(engine, invocations, maxParallel, request, slots)
  const results: CallAnswer[] = []
  for (const [index, slot] of slots.entries()) {
    const answer = await slot.live.wait()
    request.onAnswer?.(answer, index)
    results.push(answer)
  }
  await running
  return {
    results,
    additionalContexts: results.flatMap((result) => result.additionalContexts ?? []),
    concluded: results.some((result) => result.concludesTurn === true)
  }
}

function claimAll(invocations: Invocations, session: Session, calls: readonly ParsedCall[]): Slot[] {
  const slots: Slot[] = []
  try {
    for (const call of calls) slots.push({ call, ...invocations.claim(session, call) })
  } catch (error) {
    rejectNew(slots, error)
    throw error
  }
  return slots
}

function rejectNew(slots: readonly Slot[], error: unknown): void {
  for (const slot of slots) if (slot.isNew) slot.live.reject(error)
}

/** Drives the batch's own calls; what fails here reaches every caller through the live calls. */
async function lead(
  engine: CallEngine,
  invocations: Invocations,
  maxParallel: number,
  request: BatchRequest,
  slots: readonly Slot[]
): Promise<void> {
  try {
    const fresh: Slot[] = []
    const replayed: (() => void)[] = []
    for (const slot of slots.filter(({ isNew }) => isNew)) {
      const answer = await invocations.replay(request.session, slot.call)
      if (answer === undefined) fresh.push(slot)
      else replayed.push(() => slot.live.resolve(answer))
    }
    // Only now is it known that no call conflicts.
    for (const resolve of replayed) resolve()
    if (fresh.length > 0) await runFresh(engine, maxParallel, request, fresh)
  } catch (error) {
    rejectNew(slots, error)
  }
}

async function runFresh(
  engine: CallEngine,
  maxParallel: number,
  request: BatchRequest,
  fresh: readonly Slot[]
): Promise<void> {
  const { session, signal } = request
  const { ref, events } = session.enter({
    calls: fresh.length,
    isBatch: true,
    ...(request.turn === undefined ? {} : { turn: request.turn }),
    ...(request.step === undefined ? {} : { step: request.step })
  })
  const abortAll = (): void => {
    for (const { live } of fresh) live.controller.abort(signal.reason)
  }
  if (signal.aborted) abortAll()
  signal.addEventListener('abort', abortAll, { once: true })
  let opening: { events: readonly NewEvent[]; writes: readonly TableWrite[] } = {
    events,
    writes: fresh.map(({ call }) => acceptedWrite(session, ref, call))
  }
  const last = fresh.at(-1)
  const runs = fresh.map((slot) => {
    const place = {
      session,
      ref,
      isAccepted: true,
      opening: () => {
        const mine = opening
        opening = { events: [], writes: [] }
        return mine
      },
      beforeResult: () => {
        if (slot === last) session.turns.closeStep(ref)
      }
    }
    return new CallRun(engine, place, { ...slot.call, signal: slot.live.controller.signal }, slot.live)
  })
  try {
    await runBatch(runs, { maxParallel, signal })
  } finally {
    signal.removeEventListener('abort', abortAll)
  }
}

const acceptedWrite = (session: Session, ref: { turn: number; step: number }, call: ParsedCall): TableWrite => ({
  table: 'calls',
  op: 'insert',
  row: {
    session: session.id,
    call_id: call.callId,
    name: call.name,
    args_hash: call.argumentsHash,
    turn: ref.turn,
    step: ref.step,
    state: 'accepted',
    accepted_at: Date.now()
  }
})
