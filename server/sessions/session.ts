import {
  type EventLog,
  type NewEvent,
  type Row,
  type StoredEvent,
  StoreUnavailableError,
  type TableWrite
} from '../event-log/event-log.ts'
import type { JsonValue } from '../json/lossless.ts'
import type { Agent, Scope } from '../scopes/scope.ts'
import type { UserMessage } from '../tools/definition.ts'
import { ContextQueue } from './context-queue.ts'
import { Facts } from './facts.ts'
import { Relations } from './relations.ts'
import { type StepRef, type StepRequest, Turns } from './turns.ts'

/** What is stored of a session besides its events. */
export interface SessionRecord {
  id: string
  createdAt: number
  /** Working directory, fixed before first use; absent: what the workspaces decide. */
  cwd?: string
}

/** Where a stored session stands. */
export interface StoredState {
  turns: Turns
  contexts: ContextQueue
  facts: Facts
}

export interface SessionOptions {
  log: EventLog
  /** Hears once that this object can no longer be believed. */
  onStale: (session: Session, error: unknown) => void
  /** What the log of a new session in this scope begins with. */
  openingEvents?: (scope: Scope) => readonly NewEvent[]
}

export interface AppendOptions {
  writes?: readonly TableWrite[]
  /** Gives the events that come after the relations have taken the first ones. */
  following?: () => NewEvent[]
  /** As `Append.closing`. */
  closing?: boolean
  /** One call alone in its step: refused by the store, it is as if it had not come, and the session goes on. */
  isRevocable?: boolean
}

/**
 * One live session in its scope: the *agent* of every call made in it (core.md, head). It owns the place of calls (turns, steps), the
 * contexts that wait for the next step, and is the only one that appends events of the session.
 */
export class Session implements Agent {
  readonly id: string
  readonly scope: Scope
  readonly createdAt: number
  readonly cwd: string | undefined
  readonly turns: Turns
  readonly facts: Facts
  readonly #log: EventLog
  readonly #onStale: SessionOptions['onStale']
  #openingEvents: (scope: Scope) => readonly NewEvent[]
  readonly #relations = new Relations()
  readonly #contexts: ContextQueue
  /** Contexts that a step has taken before an answer carried them: the next answer does. */
  readonly #carried: UserMessage[] = []
  /** Versions of what the row says of turns, contexts and facts; undefined while there is no row. */
  #storedVersions: { turns: number; contexts: number; facts: number } | undefined
  #failure: unknown
  #live = 0
  #kept = 0
  #whenIdle: (() => void)[] = []

  /** `stored`: the session has a row already. */
  constructor(
    { log, onStale, openingEvents = () => [] }: SessionOptions,
    scope: Scope,
    record: SessionRecord,
    stored?: StoredState
  ) {
    this.#log = log
    this.#onStale = onStale
    this.#openingEvents = stored === undefined ? openingEvents : () => []
    this.scope = scope
    this.id = record.id
    this.createdAt = record.createdAt
    this.cwd = record.cwd
    this.turns = stored?.turns ?? new Turns()
    this.#contexts = stored?.contexts ?? new ContextQueue()
    this.facts = stored?.facts ?? new Facts()
    if (stored !== undefined) this.#storedVersions = this.#versions()
  }

  /** An append has failed: what this object believes may not be what is stored, so it takes no more calls. */
  get isStale(): boolean {
    return this.#failure !== undefined
  }

  /** Throws `StoreUnavailableError` when it is stale: what it says of its turns is then no answer for anybody. */
  assertBelieved(): void {
    if (this.#failure === undefined) return
    throw new StoreUnavailableError('the session could not be stored', { cause: this.#failure })
  }

  /** Something of it is stored, or about to be. */
  get isKnown(): boolean {
    return this.#storedVersions !== undefined || !this.isIdle
  }

  get isIdle(): boolean {
    return this.#live === 0
  }

  /** Counts a call in; the returned undo counts it out again. */
  hold(): () => void {
    this.#live += 1
    return () => {
      this.#live -= 1
      if (this.#live > 0) return
      for (const resolve of this.#whenIdle.splice(0)) resolve()
    }
  }

  /** Something belongs to this very object, a job or a terminal, so another one must not take its place; the undo lets go. */
  keep(): () => void {
    this.#kept += 1
    return () => {
      this.#kept -= 1
    }
  }

  get isKept(): boolean {
    return this.#kept > 0
  }

  whenIdle(): Promise<void> {
    return this.isIdle ? Promise.resolve() : new Promise((resolve) => this.#whenIdle.push(resolve))
  }

  /** What a new session's log begins with (backends.md §12): whoever appends first takes it, once. */
  takeOpening(): readonly NewEvent[] {
    const events = this.#openingEvents(this.scope)
    this.#openingEvents = () => []
    return events
  }

  /**
   * Places calls in a step (api.md §2). A new step begins with the queued contexts, right after its start (core.md §24.1); in a turn that
   * is being aborted they stay queued (core.md §24.3).
   */
  enter(request: StepRequest): { ref: StepRef; events: NewEvent[]; contexts: UserMessage[] } {
    const { ref, events, takesContexts } = this.turns.enter(request, this)
    if (takesContexts) this.#carried.push(...this.#contexts.takeUndelivered())
    const contexts = takesContexts ? this.#contexts.take() : []
    return { ref, events: [...this.takeOpening(), ...events, ...contexts.map(messageEvent)], contexts }
  }

  /**
   * The open turn as the log has it: calls that wait for an approval over a restart, by their rows, and the steps that have a
   * `step/start` and no end.
   */
  restoreSteps(waiting: readonly Row[], openSteps: readonly number[]): void {
    for (const row of waiting) {
      const ref = { turn: Number(row['turn']), step: Number(row['step']) }
      this.turns.restoreCall(ref, openSteps.includes(ref.step))
      this.#relations.restore(String(row['call_id']), { ...ref, seq: Number(row['call_seq']) })
    }
    for (const step of openSteps) this.turns.restoreStep(step)
  }

  /**
   * A context for the next step (core.md §24.1), stored with the session's next append: queue first, then append. `isDelivered`: an
   * answer carries it already.
   */
  queueContext(message: UserMessage, { isDelivered = false } = {}): void {
    this.#contexts.add(message, isDelivered)
  }

  /** Whether the call is in this session's log and has no result yet. */
  isRecorded(callId: string): boolean {
    return this.#relations.isPending(callId)
  }

  get hasQueuedContexts(): boolean {
    return !this.#contexts.isEmpty
  }

  /** Contexts that no answer has carried yet: each appears in one answer (api.md §2). */
  takeUndelivered(): UserMessage[] {
    return [...this.#carried.splice(0), ...this.#contexts.takeUndelivered()]
  }

  clearContexts(): void {
    this.#contexts.clear()
  }

  /** Makes the session unusable: its calls fail, and the next use reads it from the log anew. */
  fail(error: unknown): void {
    if (this.#failure !== undefined) return
    this.#failure = error
    this.#onStale(this, error)
  }

  /**
   * Appends events of this session, with the session's own row where it has changed, in one transaction. Rejects with
   * `StoreUnavailableError`, or what else the log says; the session is stale then, unless the append was revocable.
   */
  async append(events: readonly NewEvent[], options: AppendOptions = {}): Promise<readonly StoredEvent[]> {
    this.assertBelieved()
    const { writes = [], following, closing = false, isRevocable = false } = options
    const before = this.#storedVersions
    try {
      this.#relations.apply(events, (ref) => this.turns.isPending(ref))
      const all = following === undefined ? events : [...events, ...following()]
      this.facts.take(all)
      const row = this.#rowWrite()
      const stored = await this.#log.append({
        session: this.id,
        scope: this.scope.id,
        events: all,
        writes: row === undefined ? writes : [row, ...writes],
        closing
      })
      for (const event of stored) if (event.type === 'tool/call') this.#relations.acknowledge(event)
      return stored
    } catch (error) {
      const [only] = events
      if (isRevocable && only !== undefined && before !== undefined && error instanceof StoreUnavailableError) {
        this.#revoke(only)
      } else this.fail(error)
      throw error
    }
  }

  #revoke({ data }: NewEvent): void {
    const { turn, step, callId } = data as { turn: number; step: number; callId: string }
    this.#relations.withdraw(callId)
    this.turns.withdraw({ turn, step })
    // The row that went with it is not stored either; no version is below 0.
    this.#storedVersions = { turns: -1, contexts: -1, facts: -1 }
  }

  #versions(): { turns: number; contexts: number; facts: number } {
    return { turns: this.turns.version, contexts: this.#contexts.version, facts: this.facts.version }
  }

  #rowWrite(): TableWrite | undefined {
    const stored = this.#storedVersions
    const now = this.#versions()
    if (stored?.turns === now.turns && stored.contexts === now.contexts && stored.facts === now.facts) return undefined
    this.#storedVersions = now
    const { turn, isOpen, lastStep } = this.turns.state
    const row: Row = { id: this.id, turn, turn_open: isOpen ? 1 : 0, step: lastStep }
    if (stored?.contexts !== now.contexts) row['contexts'] = this.#contexts.toText()
    if (stored?.facts !== now.facts) Object.assign(row, this.facts.columns())
    if (stored !== undefined) return { table: 'sessions', op: 'put', row }
    Object.assign(row, { scope: this.scope.id, cwd: this.cwd ?? null, created_at: this.createdAt })
    return { table: 'sessions', op: 'insert', row }
  }
}

/** A message as it stands in the log. */
export const messageEvent = (message: UserMessage): NewEvent => ({
  type: 'user/message',
  data: message as unknown as JsonValue,
  surfaceOp: 'append'
})
