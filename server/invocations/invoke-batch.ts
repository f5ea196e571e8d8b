import { RequestError } from '../errors.ts'
import { runBatch } from '../scheduler/scheduler.ts'
import type { Session } from '../sessions/session.ts'
import type { StepRef } from '../sessions/turns.ts'
import type { UserMessage } from '../tools/definition.ts'
import type { CallAnswer } from './answer.ts'
import { acceptedWrite } from './call-rows.ts'
import { type CallPlace, CallRun } from './call-run.ts'
import { askerOf, type InvocationParts, type Invocations, type RequestOrigin } from './invoke.ts'
import type { Caller, LiveCall } from './live-call.ts'
import { type CallRequest, type ParsedCall, parseCall } from './plan.ts'
import { inStep } from './step.ts'

/** One model step's calls (api.md §2). */
export interface BatchRequest {
  session: Session
  turn?: number
  step?: number
  calls: readonly CallRequest[]
  /** As of a plain call. */
  by?: RequestOrigin
  trace?: unknown
  /** Who waits, for each call: one that has a `callId` may outlive its caller. */
  callerOf?: (call: CallRequest) => Caller
  /** Called with each answer as soon as it is committed, in model order. */
  onAnswer?: (answer: CallAnswer, index: number) => void
}

export interface BatchAnswer {
  results: CallAnswer[]
  additionalContexts: UserMessage[]
  concluded: boolean
}

interface Member {
  call: ParsedCall
  live: LiveCall
  isNew: boolean
}

/**
 * Runs a batch by core.md §22. A known `callId` in it attaches or replays; one that conflicts, or stands twice, refuses the whole batch
 * before anything runs. With the first append every call is stored as accepted, so that recovery knows the ones that never started.
 */
export async function invokeBatch(invocations: Invocations, request: BatchRequest): Promise<BatchAnswer> {
  const calls = request.calls.map(parseCall)
  if (new Set(calls.map(({ callId }) => callId)).size < calls.length) {
    throw new RequestError('BAD_REQUEST', 'a callId stands twice in the batch')
  }
  const members = claimAll(invocations.parts, request.session, calls)
  const answers = members.map(({ live }, index) => live.wait(request.callerOf?.(request.calls[index] as CallRequest)))
  // What fails here reaches every caller through the live calls.
  const running = lead(invocations, request, members).catch((error: unknown) => rejectNew(members, error))
  const results: CallAnswer[] = []
  for (const [index, answer] of answers.entries()) {
    const result = await answer
    request.onAnswer?.(result, index)
    results.push(result)
  }
  await running
  return {
    results,
    additionalContexts: results.flatMap((result) => result.additionalContexts ?? []),
    concluded: results.some((result) => result.concludesTurn === true)
  }
}

function claimAll({ calls }: InvocationParts, session: Session, batch: readonly ParsedCall[]): Member[] {
  const members: Member[] = []
  try {
    for (const call of batch) members.push({ call, ...calls.claim(session, call) })
  } catch (error) {
    rejectNew(members, error)
    throw error
  }
  return members
}

function rejectNew(members: readonly Member[], error: unknown): void {
  for (const { live, isNew } of members) if (isNew) live.reject(error)
}

async function lead(invocations: Invocations, request: BatchRequest, members: readonly Member[]): Promise<void> {
  const { session } = request
  const fresh: Member[] = []
  const replayed: (() => void)[] = []
  for (const member of members.filter(({ isNew }) => isNew)) {
    const { call, live } = member
    const answer = call.isNamedByCaller ? await invocations.replay(session, call) : undefined
    if (answer === undefined) fresh.push(member)
    else replayed.push(() => live.resolve(answer))
  }
  // Only now is it known that no call conflicts; and what is only replayed needs no place.
  for (const resolve of replayed) resolve()
  if (fresh.length > 0) await run(invocations.parts, request, fresh)
}

async function run(parts: InvocationParts, request: BatchRequest, fresh: readonly Member[]): Promise<void> {
  const { engine, admission, maxParallel } = parts
  const { session, turn, step } = request
  const tools = fresh.map(({ call }) => call.name)
  const slot = admission.request(askerOf(session, tools, request.by))
  const last = fresh.at(-1)
  await inStep(engine, { session, slot }, async (enter) => {
    if (!slot.isHeld) await slot.wait(allAborted(fresh))
    const { ref, opening } = enter({
      calls: fresh.length,
      isBatch: true,
      areAborted: fresh.every(({ live }) => live.controller.signal.aborted),
      ...(turn === undefined ? {} : { turn }),
      ...(step === undefined ? {} : { step })
    })
    opening.add(fresh.map(({ call }) => acceptedWrite(session, ref, call)))
    const placeOf = (member: Member): CallPlace => ({
      session,
      ref,
      slot,
      opening,
      isAccepted: true,
      trace: request.trace,
      ...(member === last ? { beforeResult: () => closeStep(session, ref) } : {})
    })
    await runBatch(
      fresh.map((member) => new CallRun(engine, placeOf(member), member.call, member.live)),
      maxParallel
    )
  })
}

const closeStep = ({ turns }: Session, ref: StepRef): void => turns.closeStep(ref)

/** Fires when every one of the calls is aborted: then the batch need not wait for its turn. */
function allAborted(members: readonly Member[]): AbortSignal {
  const controller = new AbortController()
  let left = members.length
  for (const { live } of members) {
    const { signal } = live.controller
    const count = (): void => {
      left -= 1
      if (left === 0) controller.abort()
    }
    if (signal.aborted) count()
    else signal.addEventListener('abort', count, { once: true })
  }
  return controller.signal
}
