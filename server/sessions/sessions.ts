import { RequestError } from '../errors.ts'
import type { EventLog, Row } from '../event-log/event-log.ts'
import type { Scope } from '../scopes/scope.ts'
import type { ScopeTree } from '../scopes/scope-tree.ts'
import { Session } from './session.ts'
import { Turns } from './turns.ts'

/** Scope and session ids (api.md §2). */
export const idPattern = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/

/** Idle sessions kept in memory: past this the longest unused are dropped, and read from the log when they are used again. */
const maxIdleSessions = 10_000

/**
 * The live sessions. A session belongs to one scope for good: named from another, or by somebody who may not see that scope, it does
 * not exist (api.md §1, §2).
 */
export class Sessions {
  readonly #log: EventLog
  readonly #tree: ScopeTree
  readonly #repair: (sessionId: string) => Promise<void>
  readonly #live = new Map<string, Promise<Session>>()

  /** `repair` closes what a failed append or a crash left dangling in one session (core.md §23). */
  constructor({ log, tree, repair }: { log: EventLog; tree: ScopeTree; repair: (sessionId: string) => Promise<void> }) {
    this.#log = log
    this.#tree = tree
    this.#repair = repair
  }

  static defaultId(scope: Scope): string {
    return scope.parent === undefined ? 'default' : `${scope.id}:default`
  }

  /** The session of this id in this scope, made on first use. Throws `UNKNOWN_SESSION` when it belongs to another scope. */
  async open(scope: Scope, id: string = Sessions.defaultId(scope), cwd?: string): Promise<Session> {
    const session = await this.#get(
      id,
      () => new Session(this.#log, scope, { id, createdAt: Date.now(), ...(cwd === undefined ? {} : { cwd }) })
    )
    if (session?.scope !== scope)
      throw new RequestError('UNKNOWN_SESSION', `there is no session "${id}" in scope "${scope.id}"`)
    return session
  }

  /** The session of this id, live or stored, or undefined. */
  async find(id: string): Promise<Session | undefined> {
    return this.#get(id)
  }

  /** Live sessions of these scopes. */
  async within(scopes: ReadonlySet<Scope>): Promise<Session[]> {
    const sessions = await Promise.all(this.#live.values())
    return sessions.filter((session) => scopes.has(session.scope))
  }

  /** Forgets live sessions of a disposed scope; their events stay in the log. */
  forget(session: Session): void {
    this.#live.delete(session.id)
  }

  async #get(id: string, make?: () => Session): Promise<Session | undefined> {
    const known = this.#live.get(id)
    if (known !== undefined) {
      const session = await known
      if (!session.isStale) {
        // Re-inserted, so that the map's order is the order of last use.
        if (this.#live.delete(id)) this.#live.set(id, known)
        return session
      }
      await session.whenIdle()
      if (this.#live.get(id) === known) this.#live.delete(id)
      return this.#get(id, make)
    }
    const loading = this.#load(id, make)
    this.#live.set(id, loading as Promise<Session>)
    const session = await loading.catch((error: unknown) => {
      this.#live.delete(id)
      throw error
    })
    if (session === undefined) this.#live.delete(id)
    else if (this.#live.size > maxIdleSessions) await this.#dropIdle()
    return session
  }

  async #load(id: string, make?: () => Session): Promise<Session | undefined> {
    let [row] = await this.#log.rows('sessions', { id }, 1)
    if (row === undefined) return make?.()
    await this.#repair(id)
    ;[row] = await this.#log.rows('sessions', { id }, 1)
    return row === undefined ? make?.() : this.#fromRow(row)
  }

  #fromRow(row: Row): Session {
    const scopeId = String(row['scope'])
    const scope = this.#tree.get(scopeId)
    if (scope === undefined) throw new RequestError('UNKNOWN_SESSION', `the scope "${scopeId}" of this session is gone`)
    const record = { id: String(row['id']), createdAt: Number(row['created_at']) }
    const turns = new Turns({
      turn: Number(row['turn']),
      isOpen: row['turn_open'] === 1,
      lastStep: Number(row['step'])
    })
    return new Session(this.#log, scope, row['cwd'] === null ? record : { ...record, cwd: String(row['cwd']) }, turns)
  }

  async #dropIdle(): Promise<void> {
    for (const [id, loading] of this.#live) {
      if (this.#live.size <= maxIdleSessions) return
      const session = await loading
      if (session.isIdle && !session.hasQueuedContexts) this.#live.delete(id)
    }
  }
}
