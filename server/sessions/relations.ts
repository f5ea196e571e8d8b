import type { JsonObject } from '../json/lossless.ts'
import type { NewEvent, StoredEvent } from '../event-log/event-log.ts'
import type { StepRef } from './turns.ts'

const surfaceTypes = new Set(['user/message', 'assistant/message', 'tool/result'])

interface PendingCall extends StepRef {
  /** Known once the log has acknowledged the call. */
  seq: number | undefined
}

/**
 * Holds what a session appends to the relations of core.md §23: who may cite what, and that each `tool/result` answers one
 * pending call of its own step. A violation is a fault of this server, so it throws a plain error and nothing is written.
 */
export class Relations {
  readonly #pending = new Map<string, PendingCall>()

  isPending(callId: string): boolean {
    return this.#pending.has(callId)
  }

  /** Takes the events of one append, in order. `isOpen` tells whether a step is open at this moment. */
  apply(events: readonly NewEvent[], isOpen: (ref: StepRef) => boolean): void {
    for (const [index, event] of events.entries()) {
      checkCitations(event, index)
      if (event.type === 'tool/call') this.#call(event.data as JsonObject, isOpen)
      else if (event.type === 'tool/result') this.#result(event, events)
    }
  }

  /** A call of an earlier run of the server that goes on waiting for its result. */
  restore(callId: string, call: StepRef & { seq: number }): void {
    this.#pending.set(callId, { turn: call.turn, step: call.step, seq: call.seq })
  }

  /** The log has refused the call, and nothing else of its append is missed. */
  withdraw(callId: string): void {
    this.#pending.delete(callId)
  }

  /** The log has given the call its seq. */
  acknowledge({ data, seq }: StoredEvent): void {
    const call = this.#pending.get((data as { callId: string }).callId)
    if (call !== undefined) call.seq = seq
  }

  #call(data: JsonObject, isOpen: (ref: StepRef) => boolean): void {
    const { turn, step, callId } = data as { turn: number; step: number; callId: string }
    if (!isOpen({ turn, step })) throw new Error(`tool/call ${callId} names step ${turn}/${step}, which is not open`)
    if (this.#pending.has(callId)) throw new Error(`tool/call ${callId} is pending already`)
    this.#pending.set(callId, { turn, step, seq: undefined })
  }

  #result(event: NewEvent, events: readonly NewEvent[]): void {
    const { turn, step, message } = event.data as {
      turn: number
      step: number
      message: { source: { callId: string } }
    }
    const callId = message.source.callId
    const call = this.#pending.get(callId)
    if (call === undefined) throw new Error(`tool/result of ${callId}, which is not pending`)
    if (call.turn !== turn || call.step !== step)
      throw new Error(`tool/result of ${callId} names another step than its call`)
    const [source, ...more] = event.sourceEventSeqs ?? []
    const cited =
      typeof source === 'object' ? (events[source.sameAppend]?.data as JsonObject | undefined)?.['callId'] : callId
    if (
      source === undefined ||
      more.length > 0 ||
      cited !== callId ||
      (typeof source === 'number' && source !== call.seq)
    ) {
      throw new Error(`tool/result of ${callId} does not cite its call`)
    }
    this.#pending.delete(callId)
  }
}

function checkCitations(event: NewEvent, index: number): void {
  const sources = event.sourceEventSeqs
  if ((sources !== undefined || event.surfaceOp !== undefined) && !surfaceTypes.has(event.type)) {
    throw new Error(`${event.type} cites sources, which only ${[...surfaceTypes].join(', ')} may`)
  }
  if (sources === undefined) return
  const keys = sources.map((source) => (typeof source === 'number' ? `${source}` : `@${source.sameAppend}`))
  const isSound = sources.every((source) =>
    typeof source === 'number'
      ? Number.isSafeInteger(source) && source >= 0
      : Number.isSafeInteger(source.sameAppend) && source.sameAppend >= 0 && source.sameAppend < index
  )
  if (!isSound || new Set(keys).size !== keys.length || (sources.length === 0 && event.type !== 'assistant/message')) {
    throw new Error(`${event.type} has unsound sources`)
  }
}
