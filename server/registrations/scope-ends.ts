import type { ToolScope } from '../authoring/tool-scope.ts'
import type { EventLog } from '../event-log/event-log.ts'
import type { Scope } from '../scopes/scope.ts'
import type { ScopeTree } from '../scopes/scope-tree.ts'
import { type Clock, IdleScopes } from './idle-scopes.ts'
import type { InTurn } from './in-turn.ts'
import type { ScopeTraces } from './scope-traces.ts'
import type { ShownScope } from './shown-scope.ts'
import { type StoredScope, usedLagMs, writeScope } from './stored-scope.ts'

export interface ScopeEndsOptions {
  log: EventLog
  tree: ScopeTree
  clock: Clock
  /** Resolves when no call of the scope or of one below it is live. */
  quiet: (scope: Scope) => Promise<void>
  onErased: (ids: readonly string[]) => void
  warn: (message: string, details: Record<string, unknown>) => void
  traces: ScopeTraces
  inTurn: InTurn
  shownOf: (scope: Scope) => ShownScope | undefined
  handleOf: (scope: Scope) => ToolScope
}

/** How scopes come to their ends: taken out because somebody says so, or because nobody used them for their `ttlMs` (api.md §3). */
export class ScopeEnds {
  readonly #options: ScopeEndsOptions
  readonly #idle: IdleScopes
  #isClosed = false

  constructor(options: ScopeEndsOptions) {
    this.#options = options
    this.#idle = new IdleScopes({
      clock: options.clock,
      onIdle: (scope) =>
        void this.#endIdle(scope).catch((error: unknown) =>
          options.warn('an idle scope could not be disposed', { err: error, scope: scope.id })
        ),
      onUsed: (scope) =>
        void this.#storeUse(scope).catch((error: unknown) =>
          options.warn('the use of a scope could not be stored', { err: error, scope: scope.id })
        )
    })
  }

  /** Watches a scope that was changed just now. */
  watch(scope: Scope, { ttlMs }: StoredScope): void {
    if (ttlMs === undefined) this.#idle.forget(scope)
    else this.#idle.watch(scope, ttlMs)
  }

  /** Watches a scope that an earlier run of the server stored. */
  watchRestored(scope: Scope, { ttlMs, usedAt }: StoredScope): void {
    if (ttlMs === undefined) return
    // The last uses may not be stored; and calls that wait over a restart must be known before the scope can be idle.
    const leftMs = Math.max(usedAt + ttlMs - this.#options.clock.wall(), 0) + usedLagMs(ttlMs)
    this.#idle.watch(scope, ttlMs, leftMs)
  }

  used(scope: Scope): void {
    this.#idle.used(scope)
  }

  /** Takes a scope out of the tree at once. The returned function resolves when all is quiet. */
  takeOut(scope: Scope): () => Promise<void> {
    const { tree, warn, handleOf, inTurn, traces, onErased } = this.#options
    // Somebody in this process may have been first.
    if (!tree.isLive(scope)) return () => Promise.resolve()
    const gone = tree.subtree(scope)
    for (const each of gone) this.#idle.forget(each)
    onErased(gone.map(({ id }) => id))
    const disposed = handleOf(scope)
      .dispose()
      .catch((error: unknown) =>
        warn('a scope was disposed, but not all of it closed well', { err: error, scope: scope.id })
      )
    return async () => {
      await disposed
      await inTurn
        .run(() => traces.forget(gone.map(({ id }) => id)))
        .catch((error: unknown) => warn('the traces of disposed scopes are still stored', { err: error }))
    }
  }

  close(): void {
    this.#isClosed = true
    this.#idle.close()
  }

  async #endIdle(scope: Scope): Promise<void> {
    const { tree, quiet, log, clock, inTurn, traces } = this.#options
    await quiet(scope)
    const whenQuiet = await inTurn.run(async () => {
      if (this.#isClosed) return undefined
      if (!tree.isLive(scope)) {
        this.#idle.forget(scope)
        return undefined
      }
      // The calls that it was waited for were uses.
      if (!this.#idle.isIdle(scope)) {
        this.#idle.rearm(scope)
        return undefined
      }
      const writes = await traces.erasure(scope, clock.wall())
      // Nobody waits for an acknowledgement: what cannot be stored now is idle again after the next start.
      const taken = this.takeOut(scope)
      await log.append({ writes })
      return taken
    })
    await whenQuiet?.()
  }

  async #storeUse(scope: Scope): Promise<void> {
    const { log, tree, clock, inTurn, shownOf } = this.#options
    await inTurn.run(async () => {
      const shown = shownOf(scope)
      if (this.#isClosed || shown === undefined || !tree.isLive(scope)) return
      const stored = { ...shown.stored, usedAt: clock.wall() }
      await log.append({ writes: [writeScope(scope.id, stored)] })
      shown.stored = stored
    })
  }
}
