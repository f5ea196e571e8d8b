import type { ApprovalOutcome } from '../pipeline/decisions.ts'
import type { Execution } from '../pipeline/execution.ts'
import type { Approval, Decision } from './approval.ts'

/** Time as approvals see it: epoch milliseconds, and a timer whose undo prevents it. A test brings its own. */
export interface Clock {
  now(): number
  after(delayMs: number, run: () => void): () => void
}

export const systemClock: Clock = {
  now: () => Date.now(),
  after: (delayMs, run) => {
    const timer = setTimeout(run, delayMs)
    timer.unref()
    return () => clearTimeout(timer)
  }
}

/** Longest delay of Node's timers; a longer one would fire at once. */
const longestTimerMs = 2_147_483_647

/** An approval that is not decided yet, and how far its decision has come. */
export class PendingApproval {
  readonly approval: Approval
  /** What asks; absent when it was asked before the server was started, until its call asks again. */
  exec: Execution | undefined
  /** A running body asks: then it is not the call itself that waits. */
  isInBody = false
  /** The call waits in the log too, so both survive the end of this server. */
  isLasting = false
  /** The log has it, as far as we know. */
  isStored = false
  /** Whoever waited for it has failed with the store; the call is to be resumed before anything is decided. */
  isOrphan = false
  /** What the first person said, while the answerers around the people still have a word. */
  verdict: Decision | undefined
  /** Hands a verdict to the chain of answerers, once that has come to the people. */
  toPeople: ((outcome: ApprovalOutcome) => void) | undefined
  #isStoring = false
  #waiting = deferred()
  #cancelTimer: () => void = () => undefined

  constructor(approval: Approval) {
    this.approval = approval
  }

  /** Resolves when a decision is stored; rejects when it could not be, or when the call is left to the next run of the server. */
  get decided(): Promise<Decision> {
    return this.#waiting.promise
  }

  /** A decision is being stored, or is stored. */
  get isSettled(): boolean {
    return this.#isStoring
  }

  /** No person can be the first any more. */
  get isTaken(): boolean {
    return this.#isStoring || this.verdict !== undefined
  }

  beginStoring(): void {
    this.#isStoring = true
  }

  resolve(decision: Decision): void {
    this.approval.decision = decision
    this.#cancelTimer()
    this.#waiting.resolve(decision)
  }

  /** It is pending as before, and whoever waits for it now is told why. */
  reject(error: unknown): void {
    this.#isStoring = false
    this.verdict = undefined
    this.toPeople = undefined
    const { reject } = this.#waiting
    this.#waiting = deferred()
    reject(error)
  }

  isExpired(clock: Clock): boolean {
    const { expiresAt } = this.approval
    return expiresAt !== undefined && clock.now() >= expiresAt
  }

  /** Calls `expire` once its time is over, by a clock that later changes of the system's time do not move. */
  watch(clock: Clock, expire: () => void): void {
    const { expiresAt } = this.approval
    this.#cancelTimer()
    if (expiresAt === undefined) return
    const wait = (leftMs: number): void => {
      const delayMs = Math.min(leftMs, longestTimerMs)
      this.#cancelTimer = clock.after(delayMs, () => (leftMs > delayMs ? wait(leftMs - delayMs) : expire()))
    }
    wait(Math.max(0, expiresAt - clock.now()))
  }

  unwatch(): void {
    this.#cancelTimer()
  }
}

interface Deferred {
  promise: Promise<Decision>
  resolve: (decision: Decision) => void
  reject: (error: unknown) => void
}

function deferred(): Deferred {
  const made = {} as Deferred
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }))
  // Nobody may be waiting when it fails.
  made.promise.catch(() => undefined)
  return made
}
