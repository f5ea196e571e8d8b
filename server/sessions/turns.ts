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
}

export type TurnEndKind = 'completed' | 'aborted' | 'error' | 'interrupted'

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

  constructor(state: TurnState = { turn: 0, isOpen: false, lastStep: 0 }) {
    this.#turn = state.turn
    this.#isOpen = state.isOpen
    this.#lastStep = state.lastStep
  }

  get state(): TurnState {
    return { turn: this.#turn, isOpen: this.#isOpen, lastStep: this.#lastStep }
  }

  get isBusy(): boolean {
    return [...this.#steps.values()].some((step) => step.pending > 0)
  }

  isPending({ turn, step }: StepRef): boolean {
    return turn === this.#turn && this.#isOpen && (this.#steps.get(step)?.pending ?? 0) > 0
  }

  /**
   * Places calls. Throws `TURN_CLOSED`, `TURN_BUSY` or `STEP_CLOSED` (409) and changes nothing then. The events come in log order;
   * `contexts` are put after the step's start (core.md §24.1).
   */
  enter(request: StepRequest, contexts: readonly NewEvent[] = []): { ref: StepRef; events: NewEvent[] } {
    const opensTurn = this.#opensTurn(request.turn)
    const lastStep = opensTurn ? 0 : this.#lastStep
    const joined = opensTurn || request.step === undefined ? undefined : this.#steps.get(request.step)
    if (request.step !== undefined && request.step <= lastStep && (joined === undefined || joined.isClosing)) {
      throw new RequestError('STEP_CLOSED', `step ${request.step} of turn ${this.#turn} is closed`)
    }
    const events = opensTurn ? this.openTurn() : []
    if (joined !== undefined) {
      joined.pending += request.calls
      return { ref: { turn: this.#turn, step: joined.number }, events: [...events, ...contexts] }
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
    const ref = { turn: this.#turn, step: step.number }
    if (hasEvents) events.push({ type: 'step/start', data: { ...ref } })
    return { ref, events: [...events, ...contexts] }
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
    if (this.#isConcluded && !this.isBusy) {
      // Queued contexts still get one more step, which decides for itself (core.md §24.2).
      if (outcome.hasQueuedContexts) this.#isConcluded = false
      else events.push(...this.endTurn('completed'))
    }
    return events
  }

  /** Opens the next turn, ending an open one as completed. Throws `TURN_BUSY` while calls of it run. */
  openTurn(): NewEvent[] {
    const events = this.#isOpen ? this.endTurn('completed') : []
    this.#turn += 1
    this.#isOpen = true
    this.#lastStep = 0
    this.#isConcluded = false
    return [...events, { type: 'turn/start', data: { turn: this.#turn } }]
  }

  /** Ends the open turn and the steps still open in it. Throws `TURN_BUSY` while calls of it run. */
  endTurn(kind: TurnEndKind, cause?: string): NewEvent[] {
    if (this.isBusy) throw new RequestError('TURN_BUSY', `calls of turn ${this.#turn} are still running`)
    const ends = [...this.#steps.values()].flatMap((step) => this.#endStep(step))
    this.#isOpen = false
    const reason = cause === undefined ? { kind } : { kind, cause }
    return [...ends, { type: 'turn/end', data: { turn: this.#turn, reason } }]
  }

  #opensTurn(given: number | undefined): boolean {
    if (given === undefined) return !this.#isOpen
    if (given === this.#turn && this.#isOpen) return false
    if (given !== this.#turn + 1) throw new RequestError('TURN_CLOSED', `turn ${given} is not open`)
    if (this.isBusy) throw new RequestError('TURN_BUSY', `calls of turn ${this.#turn} are still running`)
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
