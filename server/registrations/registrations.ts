import type { ToolScope } from '../authoring/tool-scope.ts'
import { RequestError } from '../errors.ts'
import type { EventLog, TableWrite } from '../event-log/event-log.ts'
import type { Scope } from '../scopes/scope.ts'
import type { ScopeTree } from '../scopes/scope-tree.ts'
import type { Mode } from '../tools/presentation.ts'
import type { Registry } from '../tools/registry.ts'
import type { Mask } from '../tools/restriction.ts'
import {
  assertLimit,
  assertMayReplace,
  assertReached,
  type Author,
  isShownAlike,
  newMask,
  trialScope,
  tryOut,
  type WantedScope,
  withIds
} from './check-change.ts'
import type { Clock } from './idle-scopes.ts'
import { InTurn } from './in-turn.ts'
import { restoreScopes } from './restore.ts'
import { ScopeEnds } from './scope-ends.ts'
import { ScopeTraces } from './scope-traces.ts'
import { ShownScope } from './shown-scope.ts'
import { type StoredMask, type StoredScope, writeScope } from './stored-scope.ts'

export interface RegistrationsOptions {
  log: EventLog
  tree: ScopeTree
  registry: Registry
  /** The handle of the global scope. */
  root: ToolScope
  /** Settings of `scopes`. */
  limits: { readonly max: number; readonly maxDepth: number; readonly maxRestrictions: number }
  clock: Clock
  /** Resolves when no call of the scope or of one below it is live. */
  quiet: (scope: Scope) => Promise<void>
  /** Whether a token, or a socket or ticket that came of one, is bound to the scope of this id. */
  isBound: (id: string) => boolean
  /** Ids of scopes to which the configuration gives something. */
  named: ReadonlySet<string>
  /** All that was stored about these ids is, or will be, erased: their scopes are gone, or new. */
  onErased: (ids: readonly string[]) => void
  warn: (message: string, details: Record<string, unknown>) => void
}

/**
 * What clients register of scopes: that they are there, their masks, modes and idle times (api.md §3). A change is stored before it is
 * in force and acknowledged; one that cannot be stored changes nothing. Changes come one after another.
 */
export class Registrations {
  readonly #options: RegistrationsOptions
  readonly #traces: ScopeTraces
  readonly #ends: ScopeEnds
  readonly #shown = new WeakMap<Scope, ShownScope>()
  readonly #changes = new InTurn()

  constructor(options: RegistrationsOptions) {
    this.#options = options
    this.#traces = new ScopeTraces(options.log, options.tree, options.isBound)
    this.#ends = new ScopeEnds({
      ...options,
      traces: this.#traces,
      inTurn: this.#changes,
      shownOf: (scope) => this.#shown.get(scope),
      handleOf: (scope) => this.#handleOf(scope)
    })
  }

  /** Runs another change of what clients registered, one after another with those made here. */
  inTurn<T>(change: () => Promise<T>): Promise<T> {
    return this.#changes.run(change)
  }

  /** What clients registered of a scope; undefined if nothing. */
  of(scope: Scope): StoredScope | undefined {
    return this.#shown.get(scope)?.stored
  }

  /** A use of the scope: its idle time, and that of all above it, begins anew. */
  used(scope: Scope): void {
    this.#ends.used(scope)
  }

  /**
   * Makes a scope below `parent` (default: the author's own), or replaces what clients registered of it. Throws `UNKNOWN_SCOPE`,
   * `SCOPE_PARENT_FIXED`, `FORBIDDEN`, `INVALID_DEFINITION`, `RATE_LIMITED`, or `StoreUnavailableError`.
   */
  put(
    author: Author,
    id: string,
    wanted: WantedScope & { parent?: string }
  ): Promise<{ scope: Scope; isNew: boolean }> {
    return this.#changes.run(async () => {
      const { tree } = this.#options
      const existing = tree.get(id)
      if (existing !== undefined) {
        assertReached(author, id, existing)
        assertMayReplace(author, existing)
      }
      const parent = wanted.parent === undefined ? undefined : tree.get(wanted.parent)
      if (wanted.parent !== undefined) assertReached(author, wanted.parent, parent)
      if (existing === undefined) {
        assertReached(author, author.reach.id, tree.get(author.reach.id))
        return { scope: await this.#create(author, id, parent ?? author.reach, wanted), isNew: true }
      }
      if (parent !== undefined && existing.parent !== parent) throw new RequestError('SCOPE_PARENT_FIXED')
      await this.#change(author, existing, ({ presentAs: _mode, ttlMs: _ttl, ...before }) => ({
        ...before,
        ...declared(wanted),
        restrict: withIds(before.restrict, wanted.restrict ?? [])
      }))
      return { scope: existing, isNew: false }
    })
  }

  /** Adds a mask (core.md §7.5). Throws as `put` does. */
  addMask(author: Author, id: string, mask: Mask): Promise<StoredMask> {
    return this.#changes.run(async () => {
      const added = newMask(mask)
      await this.#change(author, this.#reached(author, id), (before) => ({
        ...before,
        restrict: [...before.restrict, added]
      }))
      return added
    })
  }

  /** Takes a mask back; false when there is none of this id. */
  removeMask(author: Author, id: string, maskId: string): Promise<boolean> {
    return this.#changes.run(async () => {
      const scope = this.#reached(author, id)
      const restrict = this.of(scope)?.restrict ?? []
      const left = restrict.filter((mask) => mask.id !== maskId)
      if (left.length === restrict.length) return false
      await this.#change(author, scope, (before) => ({ ...before, restrict: left }))
      return true
    })
  }

  /** Declares the mode of a scope, in place of one that was declared over the wire. */
  present(author: Author, id: string, mode: Mode): Promise<Scope> {
    return this.#changes.run(async () => {
      const scope = this.#reached(author, id)
      await this.#change(author, scope, (before) => ({ ...before, presentAs: mode }))
      return scope
    })
  }

  /** Takes the mode back; false when clients declared none. */
  unpresent(author: Author, id: string): Promise<boolean> {
    return this.#changes.run(async () => {
      const scope = this.#reached(author, id)
      if (this.of(scope)?.presentAs === undefined) return false
      await this.#change(author, scope, ({ presentAs: _mode, ...before }) => before)
      return true
    })
  }

  /**
   * Disposes a scope and all below it: nothing of them is left, their calls are aborted. Resolves when all is quiet. Throws
   * `UNKNOWN_SCOPE`, `FORBIDDEN`, or `StoreUnavailableError`.
   */
  async dispose(author: Author, id: string): Promise<void> {
    const whenQuiet = await this.#changes.run(async () => {
      const scope = this.#reached(author, id)
      assertMayReplace(author, scope)
      if (scope.parent === undefined) throw new RequestError('FORBIDDEN', 'The global scope is always there.')
      await this.#options.log.append({ writes: await this.#traces.erasure(scope, this.#options.clock.wall()) })
      return this.#ends.takeOut(scope)
    })
    await whenQuiet()
  }

  /** Brings back what is stored; once, when the plugins have made their scopes. Rejects when a mask cannot be put into force. */
  restore(): Promise<void> {
    const { log, tree, warn } = this.#options
    return restoreScopes({
      log,
      tree,
      warn,
      open: (parent, id) => this.#handleOf(parent).child(id).scope,
      adopt: (scope, stored) => this.#adopt(scope, stored)
    })
  }

  /** Ends the watch over idle scopes, and lets changes under way come to an end. */
  async close(): Promise<void> {
    this.#ends.close()
    await this.#changes.idle()
  }

  #adopt(scope: Scope, stored: StoredScope): void {
    this.#show(scope, stored)
    this.#ends.watchRestored(scope, stored)
  }

  async #create(author: Author, id: string, parent: Scope, wanted: WantedScope): Promise<Scope> {
    const { tree, registry, limits, log, clock, named } = this.#options
    // What the configuration gives to an id is not for those to take who may not configure everything.
    const mayTake = author.mayConfigure && author.reach === tree.global
    if (named.has(id) && !mayTake) assertReached(author, id, undefined)
    const now = clock.wall()
    const next: StoredScope = {
      above: [...parent.chain.map((layer) => layer.id)],
      ...declared(wanted),
      restrict: withIds([], wanted.restrict ?? []),
      usedAt: now,
      createdAt: now
    }
    this.#assertConfigurable(author, undefined, next)
    assertLimit('scopes.max', tree.all().length + 1, limits.max)
    assertLimit('scopes.maxDepth', parent.chain.length, limits.maxDepth)
    assertLimit('scopes.maxRestrictions', next.restrict.length, limits.maxRestrictions)
    tryOut(registry, trialScope(id, parent), undefined, next)
    await log.append({ writes: [...(await this.#traces.succession(author, id)), writeScope(id, next)] })
    this.#options.onErased([id])
    try {
      const handle = this.#handleOf(parent).child(id)
      this.#show(handle.scope, next)
      this.used(handle.scope)
      return handle.scope
    } catch (error) {
      // A plugin made the id its own, or a listener refused the change: then nobody was promised this.
      const scope = tree.get(id)
      if (scope !== undefined && scope.parent === parent && this.of(scope) === undefined) {
        await this.#handleOf(scope)
          .dispose()
          .catch(() => undefined)
      }
      await this.#takeBack(id, () => this.#traces.erasureOf(id, next.above ?? [], now))
      throw error
    }
  }

  async #change(author: Author, scope: Scope, change: (before: StoredScope) => StoredScope): Promise<void> {
    const { registry, limits, log, clock } = this.#options
    const now = clock.wall()
    const before = this.of(scope)
    const start: StoredScope = before ?? { restrict: [], usedAt: now, createdAt: now }
    const next: StoredScope = { ...change(start), usedAt: now }
    if (scope.parent === undefined && next.ttlMs !== undefined) {
      throw new RequestError('INVALID_DEFINITION', 'The global scope is always there, so it has no ttlMs.')
    }
    this.#assertConfigurable(author, start, next)
    assertLimit('scopes.maxRestrictions', next.restrict.length, limits.maxRestrictions)
    tryOut(registry, scope, before, next)
    if (isShownAlike(start, next) && start.ttlMs === next.ttlMs) return this.used(scope)
    await log.append({ writes: [writeScope(scope.id, next)] })
    try {
      this.#show(scope, next)
      this.used(scope)
    } catch (error) {
      await this.#takeBack(scope.id, async () => [writeScope(scope.id, start)])
      throw error
    }
  }

  /** Masks and modes are for those who configure (api.md §1). */
  #assertConfigurable({ mayConfigure }: Author, before: StoredScope | undefined, next: StoredScope): void {
    const isAlike = isShownAlike(before ?? { restrict: [], usedAt: 0, createdAt: 0 }, next)
    if (!isAlike && !mayConfigure) throw new RequestError('FORBIDDEN', 'This token may not change masks and modes.')
  }

  #show(scope: Scope, next: StoredScope): void {
    const shown =
      this.#shown.get(scope) ??
      new ShownScope(this.#options.registry, scope, { restrict: [], usedAt: next.usedAt, createdAt: next.createdAt })
    shown.show(next)
    this.#shown.set(scope, shown)
    this.#ends.watch(scope, next)
  }

  /** Nobody was promised what could not be put into force. */
  async #takeBack(id: string, makeWrites: () => Promise<TableWrite[]>): Promise<void> {
    const { log, warn } = this.#options
    try {
      await log.append({ writes: await makeWrites() })
    } catch (error) {
      warn('a refused change of a scope is still stored', { err: error, scope: id })
    }
  }

  #reached(author: Author, id: string): Scope {
    const scope = this.#options.tree.get(id)
    assertReached(author, id, scope)
    return scope
  }

  #handleOf(scope: Scope): ToolScope {
    // `child` makes what is not there: a scope that a plugin disposed meanwhile must not come back.
    if (!this.#options.tree.isLive(scope)) throw new RequestError('UNKNOWN_SCOPE', `There is no scope "${scope.id}".`)
    return scope.chain.slice(1).reduce((handle, { id }) => handle.child(id), this.#options.root)
  }
}

const declared = ({ presentAs, ttlMs }: WantedScope): Pick<StoredScope, 'presentAs' | 'ttlMs'> => ({
  ...(presentAs === undefined ? {} : { presentAs }),
  ...(ttlMs === undefined ? {} : { ttlMs })
})
