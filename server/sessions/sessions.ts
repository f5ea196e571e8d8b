import { RequestError } from '../errors.ts'
import {
  type EventLog,
  type NewEvent,
  type Row,
  type SessionPage,
  StoreUnavailableError
} from '../event-log/event-log.ts'
import type { Scope } from '../scopes/scope.ts'
import type { ScopeTree } from '../scopes/scope-tree.ts'
import { ContextQueue } from './context-queue.ts'
import { Facts } from './facts.ts'
import { Session, type SessionRecord } from './session.ts'
import { Turns } from './turns.ts'

/** Idle sessions kept in memory: past this the longest unused are dropped, and read from the log when they are used again. */
const maxIdleSessions = 10_000

export interface SessionsOptions {
  log: EventLog
  tree: ScopeTree
  /** Closes what a failure inside this server left dangling in one session (core.md §22.7, §23). */
  repair: (sessionId: string, failure: unknown) => Promise<void>
  /** Steps of the open turn that have a start in the log and no end. */
  openSteps: (sessionId: string, turn: number) => Promise<number[]>
  /** Hears of each session that is made or read from the log. */
  onOpen?: (session: Session) => void
  /** A session can no longer be believed: its live calls are to end. */
  onStale: (session: Session, error: unknown) => void
}

/**
 * The live sessions. A session belongs to one scope for good: named from another, or by somebody who may not see that scope, it does
 * not exist (api.md §1, §2).
 */
export class Sessions {
  readonly #options: SessionsOptions
  readonly #live = new Map<string, Promise<Session | undefined>>()
  /** What those have become: a session in use is had without waiting. */
  readonly #loaded = new WeakMap<Promise<unknown>, Session>()
  /** Sessions that failed and are not repaired yet, with what it was. */
  readonly #stale = new Map<string, unknown>()
  readonly #onDelete = new Set<(id: string) => void>()
  readonly #closers = new Set<(session: Session) => Promise<void>>()
  #openingEvents: (scope: Scope) => readonly NewEvent[] = () => []

  constructor(options: SessionsOptions) {
    this.#options = options
    options.log.onState((state) => {
      if (state === 'open') this.#repairAll()
    })
  }

  static defaultId(scope: Scope): string {
    return scope.parent === undefined ? 'default' : `${scope.id}:default`
  }

  /** The session of this id in this scope, made on first use. Throws `UNKNOWN_SESSION` when it belongs to another scope. */
  async open(scope: Scope, id: string = Sessions.defaultId(scope)): Promise<Session> {
    const session = this.#ready(id) ?? (await this.#get(id, () => this.#begin(scope, id)))
    return inScope(session, scope, id)
  }

  /** As `open`, but a session that is not there yet is not kept: for what must leave no trace. */
  async peek(scope: Scope, id: string = Sessions.defaultId(scope)): Promise<Session> {
    return inScope((await this.#get(id)) ?? this.#begin(scope, id), scope, id)
  }

  /**
   * Makes and stores a session before its first use; one that is there already must be just so, else `SESSION_FIXED`. `isNew` tells
   * which it was.
   */
  async create(scope: Scope, id: string, cwd: string | undefined): Promise<{ session: Session; isNew: boolean }> {
    let isNew = false
    const session = await this.#get(id, () => {
      isNew = true
      return this.#begin(scope, id, cwd)
    })
    inScope(session, scope, id)
    if (!isNew && cwd !== undefined && session?.cwd !== cwd) throw new RequestError('SESSION_FIXED')
    await session?.append(session.takeOpening())
    return { session: session as Session, isNew }
  }

  /**
   * The session of this id, live or stored, or undefined. One of which every call was refused is none. One that failed and cannot be put
   * right yet is found as it stands: what is stored of it can be read all the while.
   */
  async find(id: string): Promise<Session | undefined> {
    const live = await this.#live.get(id)?.catch(() => undefined)
    const isStuck = live?.isStale === true && (!live.isIdle || this.#options.log.state !== 'open')
    const session = isStuck && this.#options.tree.isLive(live.scope) ? live : await this.#repaired(id)
    return session?.isKnown === true ? session : undefined
  }

  /** Stored sessions of these scopes, in order of their ids, after the one named. */
  list(scopes: readonly Scope[], page: { after: string; limit: number }): Promise<SessionPage> {
    return this.#options.log.sessions({ scopes: scopes.map(({ id }) => id), ...page })
  }

  /** From now on the log of a new session begins with these (backends.md §12). */
  openWith(openingEvents: (scope: Scope) => readonly NewEvent[]): void {
    this.#openingEvents = openingEvents
  }

  /** Hears of each session that was deleted; the returned undo takes it back. */
  onDelete(listener: (id: string) => void): () => void {
    this.#onDelete.add(listener)
    return () => void this.#onDelete.delete(listener)
  }

  /** Awaited when a session is about to be deleted and nothing can be done with it any more: ends what belongs to it. */
  onEnd(close: (session: Session) => Promise<void>): () => void {
    this.#closers.add(close)
    return () => void this.#closers.delete(close)
  }

  /** Deletes a session with its events, once its calls have ended; a use that comes meanwhile waits, and begins anew. */
  async delete(session: Session, endCalls: () => Promise<void>): Promise<void> {
    const { id } = session
    const gone = this.#delete(session, endCalls).then(() => undefined)
    this.#live.set(id, gone)
    try {
      await gone
    } finally {
      if (this.#live.get(id) === gone) this.#live.delete(id)
    }
  }

  async #delete(session: Session, endCalls: () => Promise<void>): Promise<void> {
    await endCalls()
    await session.whenIdle()
    // Who still holds it can do nothing with it any more.
    session.fail(new RequestError('UNKNOWN_SESSION'))
    for (const close of this.#closers) await close(session)
    await this.#options.log.append({ writes: [{ table: 'sessions', op: 'delete', row: { id: session.id } }] })
    this.#stale.delete(session.id)
    for (const listener of this.#onDelete) listener(session.id)
  }

  /**
   * A session that is not there yet. Another scope's default one is that scope's to begin: whoever came first would lock its callers out
   * (reliability.md §1.12).
   */
  #begin(scope: Scope, id: string, cwd?: string): Session {
    if (/(^|:)default$/.test(id) && id !== Sessions.defaultId(scope)) throw notInScope(scope, id)
    return this.#make(scope, { id, createdAt: Date.now(), ...(cwd === undefined ? {} : { cwd }) })
  }

  #make(scope: Scope, record: SessionRecord, stored?: ConstructorParameters<typeof Session>[3]): Session {
    const { log, onOpen, onStale } = this.#options
    const note = (session: Session, error: unknown): void => {
      this.#stale.set(session.id, error)
      onStale(session, error)
      void this.#repairWhenIdle(session)
    }
    const session = new Session({ log, onStale: note, openingEvents: this.#openingEvents }, scope, record, stored)
    onOpen?.(session)
    return session
  }

  /** The session of this id, if it is there and can be used at once. */
  #ready(id: string): Session | undefined {
    const known = this.#live.get(id)
    const session = known && this.#loaded.get(known)
    if (known === undefined || session === undefined || !this.#isUsable(session)) return undefined
    // Re-inserted, so that the map's order is the order of last use.
    this.#live.delete(id)
    this.#live.set(id, known)
    return session
  }

  #isUsable(session: Session): boolean {
    return !session.isStale && this.#options.tree.isLive(session.scope)
  }

  async #get(id: string, make?: () => Session): Promise<Session | undefined> {
    for (let known = this.#live.get(id); known !== undefined; known = this.#live.get(id)) {
      const session = this.#ready(id) ?? (await known.catch(() => undefined))
      if (session !== undefined && this.#isUsable(session)) return session
      if (session?.isStale === true && this.#options.log.state !== 'open') {
        throw new StoreUnavailableError('the session could not be stored')
      }
      await session?.whenIdle()
      if (this.#live.get(id) === known) this.#live.delete(id)
    }
    const loading = this.#load(id, make)
    this.#live.set(id, loading)
    try {
      const session = await loading
      if (session !== undefined) this.#loaded.set(loading, session)
      else if (this.#live.get(id) === loading) this.#live.delete(id)
      if (this.#live.size > maxIdleSessions) await this.#dropIdle()
      return session
    } catch (error) {
      if (this.#live.get(id) === loading) this.#live.delete(id)
      throw error
    }
  }

  async #load(id: string, make?: () => Session): Promise<Session | undefined> {
    const { log, repair } = this.#options
    if ((await log.rows('sessions', { id }, 1)).length === 0) {
      this.#stale.delete(id)
      return make?.()
    }
    if (this.#stale.has(id)) {
      await repair(id, this.#stale.get(id))
      this.#stale.delete(id)
    }
    const [row] = await log.rows('sessions', { id }, 1)
    return row === undefined ? make?.() : this.#fromRow(row)
  }

  /** `failure`: it is not repaired, and only to be read. */
  async #fromRow(row: Row, failure?: unknown): Promise<Session | undefined> {
    const { tree, log, openSteps } = this.#options
    const id = String(row['id'])
    const scope = tree.get(String(row['scope']))
    // A session of a scope that is gone is to nobody distinguishable from one that never was.
    if (scope === undefined) return undefined
    const turn = Number(row['turn'])
    const turns = new Turns({ turn, isOpen: row['turn_open'] === 1, lastStep: Number(row['step']) })
    const state = { turns, contexts: new ContextQueue(row['contexts'] as string | null), facts: new Facts(row) }
    const record = { id, createdAt: Number(row['created_at']) }
    const full = row['cwd'] === null ? record : { ...record, cwd: String(row['cwd']) }
    if (failure !== undefined) {
      const session = new Session({ log, onStale: () => undefined }, scope, full, state)
      session.fail(failure)
      return session
    }
    const session = this.#make(scope, full, state)
    if (turns.state.isOpen) {
      const waiting = await log.rows('calls', { session: id, state: 'awaiting-approval' })
      session.restoreSteps(waiting, await openSteps(id, turn))
    }
    return session
  }

  async #repaired(id: string): Promise<Session | undefined> {
    try {
      return await this.#get(id)
    } catch (error) {
      const failure = this.#stale.get(id)
      if (failure === undefined || !(error instanceof StoreUnavailableError)) throw error
      const [row] = await this.#options.log.rows('sessions', { id }, 1)
      return row === undefined ? undefined : await this.#fromRow(row, failure)
    }
  }

  /** Where the log still takes appends nothing else would tell when to try. */
  async #repairWhenIdle(session: Session): Promise<void> {
    await session.whenIdle()
    if (this.#options.log.state === 'open' && this.#stale.has(session.id)) {
      await this.#get(session.id).catch(() => undefined)
    }
  }

  /** The log is there again: what failed is put right now, not when somebody asks. */
  #repairAll(): void {
    // What cannot be repaired now stays in the set, and is tried again by the next use or the next time.
    for (const id of [...this.#stale.keys()]) void this.#get(id).catch(() => undefined)
  }

  async #dropIdle(): Promise<void> {
    for (const [id, loading] of this.#live) {
      if (this.#live.size <= maxIdleSessions) return
      const session = await loading.catch(() => undefined)
      if (session === undefined || !session.isIdle || session.isStale || session.hasQueuedContexts || session.isKept)
        continue
      if (this.#live.get(id) === loading) this.#live.delete(id)
    }
  }
}

function inScope(session: Session | undefined, scope: Scope, id: string): Session {
  if (session?.scope === scope) return session
  throw notInScope(scope, id)
}

const notInScope = ({ id: scope }: Scope, id: string): RequestError =>
  new RequestError('UNKNOWN_SESSION', `there is no session "${id}" in scope "${scope}"`)
