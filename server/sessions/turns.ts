import { RequestError } from '../errors.ts'
import type { NewEvent } from '../event-log/event-log.ts'

/** Where a call stands in its session: turns count from 1, steps from 1 within a turn (core.md §23). */
export interface StepRef {
  readonly turn: number
  readonly step: number
}

/** What a request says of its place (api.md §2). A batch is a step with events of its own, named or not. */
export interface StepRequest {
  turn?: number
  step?: number
  isBatch?: boolean
  /** How many calls enter. */
  calls: number
  /** They are aborted and only get their pair (core.md §22.5): for that they may enter a turn that is being aborted. */
  areAborted?: boolean
}

/** Why a turn ended (backends.md §14.1). `interrupted` is what recovery writes. */
export const turnEndKinds = ['completed', 'aborted', 'blocked', 'error', 'max-tokens'] as const
export type TurnEndKind = (typeof turnEndKinds)[number]

interface OpenStep {
  readonly number: number
  /** Only given steps and batches write `step/start` and `step/end`. */
  readonly hasEvents: boolean
  pending: number
  /** It ends with its last pending call: a higher step was opened, or its batch is complete. */
  isClosing: boolean
  isConcluded: boolean
}

/** The stored part of the state: columns of the session's row. */
export interface TurnState {
  turn: number
  isOpen: boolean
  lastStep: number
}

/**
 * The turns and steps of one session (api.md §2): decides where a call goes and which events open and close what. It changes with
 * the call that asks, before the log has acknowledged; a failed append makes the whole session stale (`Session`).
 */
export class Turns {
  #turn: number
  #isOpen: boolean
  #lastStep: number
  readonly #steps = new Map<number, OpenStep>()
  #isConcluded = false
  #isEnding = false
  #version = 0

  constructor(state: TurnState = { turn: 0, isOpen: false, lastStep: 0 }) {
    this.#turn = state.turn
    this.#isOpen = state.isOpen
    this.#lastStep = state.lastStep
  }

  get state(): TurnState {
    return { turn: this.#turn, isOpen: this.#isOpen, lastStep: this.#lastStep }
  }

  /** Another number whenever `state` is another one: cheaper to compare, for every append. */
  get version(): number {
    return this.#version
  }

  get isBusy(): boolean {
    return [...this.#steps.values()].some((step) => step.pending > 0)
  }

  isPending({ turn, step }: StepRef): boolean {
    return turn === this.#turn && this.#isOpen && (this.#steps.get(step)?.pending ?? 0) > 0
  }

  /**
   * Places calls. Throws `TURN_CLOSED`, `TURN_BUSY` or `STEP_CLOSED` (409) and changes nothing then. The events come in log order.
   * `takesContexts`: the step begins, in a turn that goes on; with queued contexts it also decides for itself whether the turn is
   * concluded, whatever an earlier step said (core.md §24.2).
   */
  enter(
    request: StepRequest,
    { hasQueuedContexts = false } = {}
  ): { ref: StepRef; events: NewEvent[]; takesContexts: boolean } {
    if (request.areAborted !== true) this.assertNotEnding()
    const opensTurn = this.#opensTurn(request.turn)
    const lastStep = opensTurn ? 0 : this.#lastStep
    const joined = opensTurn || request.step === undefined ? undefined : this.#steps.get(request.step)
    if (request.step !== undefined && request.step <= lastStep && (joined === undefined || joined.isClosing)) {
      throw new RequestError('STEP_CLOSED', `step ${request.step} of turn ${this.#turn} is closed`)
    }
    const events = opensTurn ? this.openTurn() : []
    if (joined !== undefined) {
      joined.pending += request.calls
      return { ref: { turn: this.#turn, step: joined.number }, events, takesContexts: false }
    }
    const hasEvents = request.step !== undefined || request.isBatch === true
    if (request.step !== undefined) events.push(...this.#closeEarlierSteps())
    const step = {
      number: request.step ?? lastStep + 1,
      hasEvents,
      pending: request.calls,
      isClosing: false,
      isConcluded: false
    }
    if (!hasEvents) step.isClosing = true
    this.#steps.set(step.number, step)
    this.#lastStep = step.number
    this.#version += 1
    if (hasQueuedContexts) this.#isConcluded = false
    const ref = { turn: this.#turn, step: step.number }
    if (hasEvents) events.push({ type: 'step/start', data: { ...ref } })
    return { ref, events, takesContexts: !this.#isEnding }
  }

  /** A call of an earlier run of the server goes on waiting (api.md §7). Its step takes no more calls, and ends with it. */
  restoreCall({ turn, step }: StepRef, hasEvents: boolean): void {
    if (turn !== this.#turn || !this.#isOpen) throw new Error(`turn ${turn} of a waiting call is not open`)
    const known = this.#steps.get(step)
    if (known === undefined) {
      this.#steps.set(step, { number: step, hasEvents, pending: 1, isClosing: true, isConcluded: false })
    } else known.pending += 1
  }

  /** A given step of the open turn that has no call at the moment, and may get more. */
  restoreStep(number: number): void {
    if (this.#steps.has(number)) return
    this.#steps.set(number, { number, hasEvents: true, pending: 0, isClosing: false, isConcluded: false })
  }

  /** Takes a call back that the log refused, and that stands in a step which the log knows or need not know. */
  withdraw({ step: number }: StepRef): void {
    const step = this.#steps.get(number)
    if (step === undefined) return
    step.pending -= 1
    if (step.pending === 0 && !step.hasEvents) this.#steps.delete(number)
  }

  /** The step ends with its last pending call (the end of a batch). */
  closeStep(ref: StepRef): void {
    const step = this.#steps.get(ref.step)
    if (step !== undefined && ref.turn === this.#turn) step.isClosing = true
  }

  /** One call has its result. Returns what follows the result in the same append: `step/end`, and `turn/end` when it concluded. */
  leave(ref: StepRef, outcome: { concludes: boolean; hasQueuedContexts: boolean }): NewEvent[] {
    const step = this.#steps.get(ref.step)
    if (step === undefined || ref.turn !== this.#turn) return []
    step.pending -= 1
    if (outcome.concludes) step.isConcluded = true
    const events: NewEvent[] = []
    if (step.pending === 0 && step.isClosing) events.push(...this.#endStep(step))
    // Queued contexts still get one more step.
    const endsTurn = this.#isConcluded && !this.#isEnding && !this.isBusy && !outcome.hasQueuedContexts
    if (endsTurn) events.push(...this.endTurn('completed'))
    return events
  }

  /** Throws `TURN_CLOSED` unless this turn is the open one. */
  assertOpen(turn: number): void {
    if (!this.#isOpen || turn !== this.#turn) throw new RequestError('TURN_CLOSED', `turn ${turn} is not open`)
  }

  /** Throws `TURN_BUSY` between `beginEnd` and the end. */
  assertNotEnding(): void {
    if (this.#isEnding) throw busy(this.#turn)
  }

  /** No call enters the open turn any more, unless to be skipped: it is being aborted, and its calls are waited for. */
  beginEnd(): void {
    this.#isEnding = true
  }

  /** Opens the next turn, ending an open one as completed. Throws `TURN_BUSY` while calls of it run. */
  openTurn(): NewEvent[] {
    this.assertNotEnding()
    const events = this.#isOpen ? this.endTurn('completed') : []
    this.#turn += 1
    this.#isOpen = true
    this.#lastStep = 0
    this.#isConcluded = false
    this.#version += 1
    return [...events, { type: 'turn/start', data: { turn: this.#turn } }]
  }

  /**
   * Ends the open turn and the steps still open in it. Throws `TURN_BUSY` while calls of it run. An error that the caller's loop
   * reports has no code of ours (core.md §30).
   */
  endTurn(kind: TurnEndKind, cause?: string): NewEvent[] {
    if (this.isBusy) throw busy(this.#turn)
    const ends = [...this.#steps.values()].flatMap((step) => this.#endStep(step))
    this.#isOpen = false
    this.#isEnding = false
    this.#version += 1
    const reason = {
      kind,
      ...(cause === undefined ? {} : { cause }),
      ...(kind === 'error' ? { code: 'UNKNOWN' } : {})
    }
    return [...ends, { type: 'turn/end', data: { turn: this.#turn, reason } }]
  }

  #opensTurn(given: number | undefined): boolean {
    if (given === undefined) return !this.#isOpen
    if (given === this.#turn && this.#isOpen) return false
    if (given !== this.#turn + 1) throw new RequestError('TURN_CLOSED', `turn ${given} is not open`)
    if (this.isBusy) throw busy(this.#turn)
    return true
  }

  #closeEarlierSteps(): NewEvent[] {
    const given = [...this.#steps.values()].filter((step) => step.hasEvents)
    for (const step of given) step.isClosing = true
    return given.filter((step) => step.pending === 0).flatMap((step) => this.#endStep(step))
  }

  #endStep(step: OpenStep): NewEvent[] {
    this.#steps.delete(step.number)
    if (step.isConcluded) this.#isConcluded = true
    return step.hasEvents ? [{ type: 'step/end', data: { turn: this.#turn, step: step.number } }] : []
  }
}

const busy = (turn: number): RequestError => new RequestError('TURN_BUSY', `calls of turn ${turn} are still running`)
