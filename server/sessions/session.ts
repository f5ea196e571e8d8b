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
import { Relations } from './relations.ts'
import { type StepRef, type StepRequest, Turns } from './turns.ts'

/** What is stored of a session besides its events. */
export interface SessionRecord {
  id: string
  createdAt: number
  /** Working directory, fixed before first use; absent: what the workspaces decide. */
  cwd?: string
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
  readonly #log: EventLog
  readonly #relations = new Relations()
  readonly #contexts: { message: UserMessage; isDelivered: boolean }[] = []
  #storedState: string
  #isStored: boolean
  #failure: unknown
  #live = 0
  #whenIdle: (() => void)[] = []

  constructor(log: EventLog, scope: Scope, record: SessionRecord, stored?: Turns) {
    this.#log = log
    this.scope = scope
    this.id = record.id
    this.createdAt = record.createdAt
    this.cwd = record.cwd
    this.turns = stored ?? new Turns()
    this.#isStored = stored !== undefined
    this.#storedState = JSON.stringify(this.turns.state)
  }

  /** An append has failed: what this object believes may not be what is stored, so it takes no more calls. */
  get isStale(): boolean {
    return this.#failure !== undefined
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

  whenIdle(): Promise<void> {
    return this.isIdle ? Promise.resolve() : new Promise((resolve) => this.#whenIdle.push(resolve))
  }

  /** Places calls in a step (api.md §2). Queued contexts are written right after the step's start (core.md §24.1). */
  enter(request: StepRequest): { ref: StepRef; events: NewEvent[] } {
    const placed = this.turns.enter(
      request,
      this.#contexts.map(({ message }) => contextEvent(message))
    )
    this.#contexts.length = 0
    return placed
  }

  /** A context for the next step (core.md §24.1). `isDelivered`: an answer carries it already. */
  queueContext(message: UserMessage, { isDelivered = false } = {}): void {
    this.#contexts.push({ message, isDelivered })
  }

  /** Whether the call is in this session's log and has no result yet. */
  isRecorded(callId: string): boolean {
    return this.#relations.pendingCalls.has(callId)
  }

  get hasQueuedContexts(): boolean {
    return this.#contexts.length > 0
  }

  /** Contexts that no answer has carried yet: each appears in one answer (api.md §2). */
  takeUndelivered(): UserMessage[] {
    const waiting = this.#contexts.filter((entry) => !entry.isDelivered)
    for (const entry of waiting) entry.isDelivered = true
    return waiting.map((entry) => entry.message)
  }

  clearContexts(): void {
    this.#contexts.length = 0
  }

  /**
   * Appends events of this session, with the session's own row, in one transaction. `following` gives the events that come after the
   * relations have taken the first ones; `closing` is `Append.closing`. Rejects with `StoreUnavailableError`; the session is stale then.
   */
  async append(
    events: readonly NewEvent[],
    options: { writes?: readonly TableWrite[]; following?: () => NewEvent[]; closing?: boolean } = {}
  ): Promise<readonly StoredEvent[]> {
    if (this.#failure !== undefined)
      throw new StoreUnavailableError('the session could not be stored', { cause: this.#failure })
    this.#relations.apply(events, (ref) => this.turns.isPending(ref))
    const { writes = [], following, closing = false } = options
    const all = following === undefined ? events : [...events, ...following()]
    try {
      const row = this.#rowWrite()
      const stored = await this.#log.append({
        session: this.id,
        scope: this.scope.id,
        events: all,
        writes: row === undefined ? writes : [row, ...writes],
        closing
      })
      for (const event of stored) {
        if (event.type === 'tool/call')
          this.#relations.acknowledge((event.data as { callId: string }).callId, event.seq)
      }
      return stored
    } catch (error) {
      this.#failure ??= error
      throw error
    }
  }

  #rowWrite(): TableWrite | undefined {
    const state = JSON.stringify(this.turns.state)
    if (this.#isStored && state === this.#storedState) return undefined
    const { turn, isOpen, lastStep } = this.turns.state
    const row: Row = { id: this.id, turn, turn_open: isOpen ? 1 : 0, step: lastStep }
    const op = this.#isStored ? 'put' : 'insert'
    if (op === 'insert') Object.assign(row, { scope: this.scope.id, cwd: this.cwd ?? null, created_at: this.createdAt })
    this.#isStored = true
    this.#storedState = state
    return { table: 'sessions', op, row }
  }
}

export const contextEvent = (message: UserMessage): NewEvent => ({
  type: 'user/message',
  data: message as unknown as JsonValue,
  surfaceOp: 'append'
})
