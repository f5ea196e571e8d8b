import { RequestError } from '../errors.ts'
import type { EventLog, Row } from '../event-log/event-log.ts'
import type { Scope } from '../scopes/scope.ts'
import type { ScopeTree } from '../scopes/scope-tree.ts'
import { ContextQueue } from './context-queue.ts'
import { Session, type SessionRecord } from './session.ts'
import { Turns } from './turns.ts'

/** Idle sessions kept in memory: past this the longest unused are dropped, and read from the log when they are used again. */
const maxIdleSessions = 10_000

/** Rows of one listing: a page is cut from them, as the log's rows have no cursor. */
const maxListed = 100_000

export interface SessionsOptions {
  log: EventLog
  tree: ScopeTree
  /** Closes what a failed append or a crash left dangling in one session (core.md §23). */
  repair: (sessionId: string) => Promise<void>
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
  /** Sessions that failed and are not repaired yet. */
  readonly #stale = new Set<string>()
  readonly #onDelete = new Set<(id: string) => void>()

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
    return inScope(await this.#get(id, () => this.#make(scope, { id, createdAt: Date.now() })), scope, id)
  }

  /** As `open`, but a session that is not there yet is not kept: for what must leave no trace. */
  async peek(scope: Scope, id: string = Sessions.defaultId(scope)): Promise<Session> {
    return inScope((await this.#get(id)) ?? this.#make(scope, { id, createdAt: Date.now() }), scope, id)
  }

  /**
   * Makes and stores a session before its first use; one that is there already must be just so, else `SESSION_FIXED`. `isNew` tells
   * which it was.
   */
  async create(scope: Scope, id: string, cwd: string | undefined): Promise<{ session: Session; isNew: boolean }> {
    let isNew = false
    const session = await this.#get(id, () => {
      isNew = true
      return this.#make(scope, { id, createdAt: Date.now(), ...(cwd === undefined ? {} : { cwd }) })
    })
    inScope(session, scope, id)
    if (!isNew && cwd !== undefined && session?.cwd !== cwd) throw new RequestError('SESSION_FIXED')
    await session?.append([])
    return { session: session as Session, isNew }
  }

  /** The session of this id, live or stored, or undefined. One of which every call was refused is none. */
  async find(id: string): Promise<Session | undefined> {
    const session = await this.#get(id)
    return session?.isKnown === true ? session : undefined
  }

  /** Stored sessions of these scopes, in order of their ids, after the one named. */
  async list(scopes: readonly Scope[], { after = '', limit }: { after?: string; limit: number }): Promise<Row[]> {
    const perScope = await Promise.all(
      scopes.map(({ id }) => this.#options.log.rows('sessions', { scope: id }, maxListed))
    )
    const rows = perScope.flat().filter((row) => String(row['id']) > after)
    return rows.sort((a, b) => (String(a['id']) < String(b['id']) ? -1 : 1)).slice(0, limit)
  }

  /** Hears of each session that was deleted; the returned undo takes it back. */
  onDelete(listener: (id: string) => void): () => void {
    this.#onDelete.add(listener)
    return () => void this.#onDelete.delete(listener)
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
    await this.#options.log.append({ writes: [{ table: 'sessions', op: 'delete', row: { id: session.id } }] })
    this.#stale.delete(session.id)
    for (const listener of this.#onDelete) listener(session.id)
  }

  #make(scope: Scope, record: SessionRecord, stored?: ConstructorParameters<typeof Session>[3]): Session {
    const { log, onOpen, onStale } = this.#options
    const note = (session: Session, error: unknown): void => {
      this.#stale.add(session.id)
      onStale(session, error)
    }
    const session = new Session({ log, onStale: note }, scope, record, stored)
    onOpen?.(session)
    return session
  }

  async #get(id: string, make?: () => Session): Promise<Session | undefined> {
    for (let known = this.#live.get(id); known !== undefined; known = this.#live.get(id)) {
      const session = await known.catch(() => undefined)
      if (session !== undefined && !session.isStale && this.#options.tree.isLive(session.scope)) {
        // Re-inserted, so that the map's order is the order of last use.
        if (this.#live.get(id) === known) {
          this.#live.delete(id)
          this.#live.set(id, known)
        }
        return session
      }
      await session?.whenIdle()
      if (this.#live.get(id) === known) this.#live.delete(id)
    }
    const loading = this.#load(id, make)
    this.#live.set(id, loading)
    try {
      const session = await loading
      if (session === undefined && this.#live.get(id) === loading) this.#live.delete(id)
      if (this.#live.size > maxIdleSessions) await this.#dropIdle()
      return session
    } catch (error) {
      if (this.#live.get(id) === loading) this.#live.delete(id)
      throw error
    }
  }

  async #load(id: string, make?: () => Session): Promise<Session | undefined> {
    const { log, repair } = this.#options
    if ((await log.rows('sessions', { id }, 1)).length === 0) return make?.()
    await repair(id)
    this.#stale.delete(id)
    const [row] = await log.rows('sessions', { id }, 1)
    return row === undefined ? make?.() : this.#fromRow(row)
  }

  async #fromRow(row: Row): Promise<Session | undefined> {
    const { tree, log, openSteps } = this.#options
    const id = String(row['id'])
    const scope = tree.get(String(row['scope']))
    // A session of a scope that is gone is to nobody distinguishable from one that never was.
    if (scope === undefined) return undefined
    const turn = Number(row['turn'])
    const turns = new Turns({ turn, isOpen: row['turn_open'] === 1, lastStep: Number(row['step']) })
    const contexts = new ContextQueue(row['contexts'] as string | null)
    const record = { id, createdAt: Number(row['created_at']) }
    const session = this.#make(scope, row['cwd'] === null ? record : { ...record, cwd: String(row['cwd']) }, {
      turns,
      contexts
    })
    const waiting = await log.rows('calls', { session: id, state: 'awaiting-approval' })
    if (waiting.length > 0) session.restoreCalls(waiting, new Set(await openSteps(id, turn)))
    return session
  }

  /** The log is there again: what failed is put right now, not when somebody asks. */
  #repairAll(): void {
    // What cannot be repaired now stays in the set, and is tried again by the next use or the next time.
    for (const id of [...this.#stale]) void this.#get(id).catch(() => undefined)
  }

  async #dropIdle(): Promise<void> {
    for (const [id, loading] of this.#live) {
      if (this.#live.size <= maxIdleSessions) return
      const session = await loading.catch(() => undefined)
      if (session === undefined || !session.isIdle || session.isStale || session.hasQueuedContexts) continue
      if (this.#live.get(id) === loading) this.#live.delete(id)
    }
  }
}

function inScope(session: Session | undefined, scope: Scope, id: string): Session {
  if (session?.scope === scope) return session
  throw new RequestError('UNKNOWN_SESSION', `there is no session "${id}" in scope "${scope.id}"`)
}
