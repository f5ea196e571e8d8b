import { RequestError } from '../errors.ts'
import type { EventLog, TableWrite } from '../event-log/event-log.ts'
import type { Scope } from '../scopes/scope.ts'
import type { ScopeTree } from '../scopes/scope-tree.ts'
import type { Undo } from '../scopes/slots.ts'
import type { ToolDefinition } from '../tools/definition.ts'
import type { Registry } from '../tools/registry.ts'
import { Slices } from '../threads/slices.ts'
import { assertLimit, assertReached, type Author } from './check-change.ts'
import { InTurn } from './in-turn.ts'
import { legible, restoreTools } from './restore-tools.ts'
import { idsAbove } from './stored-scope.ts'
import { eraseTool, type StoredTool, toolRow, type WireRegistration, writeTool } from './stored-tool.ts'

export interface WireToolsOptions {
  log: EventLog
  tree: ScopeTree
  registry: Registry
  /** Settings of `tools`. */
  limits: { readonly max: number; readonly maxPerScope: number; readonly maxDescriptionBytes: number }
  /** Epoch milliseconds. */
  now: () => number
  /** Runs a change after those before it, of scopes too: none is disposed while a tool of it is being stored. */
  inTurn: <T>(change: () => Promise<T>) => Promise<T>
  /** Compiles a tool for a scope. Throws `INVALID_DEFINITION` or `UNSUPPORTED_SCHEMA`. */
  make: (given: WireRegistration, scope: Scope) => Promise<ToolDefinition>
  /** Hears of each scope that was used. */
  used: (scope: Scope) => void
  warn: (message: string, details: Record<string, unknown>) => void
}

interface Held {
  readonly stored: StoredTool
  readonly definition: ToolDefinition
  readonly undo: Undo
}

/** Decides, of a tool that stands in the way of another or is to go, whether it may. */
export type Consent = (stored: StoredTool) => boolean

/**
 * The tools that clients registered (api.md §3). As with scopes, a change is stored before it is in force and acknowledged, one that
 * cannot be stored changes nothing, and changes come one after another. Calls that run when their tool is taken away come to their own
 * end (core.md §8.2); later ones find no such tool.
 */
export class WireTools {
  readonly #options: WireToolsOptions
  /** By scope, since all of a scope goes with it. */
  readonly #held = new WeakMap<Scope, Map<string, Held>>()
  /** One at a time: else costly schemas, sent side by side, would keep running calls from having their arguments checked. */
  readonly #compiling = new InTurn()

  constructor(options: WireToolsOptions) {
    this.#options = options
  }

  /** What clients registered in this very scope, in order of registration. */
  of(scope: Scope): StoredTool[] {
    return [...(this.#held.get(scope)?.values() ?? [])].map(({ stored }) => stored)
  }

  /**
   * Registers tools in a scope (default: the author's own), all of them or none. Where `replaces` consents, a tool that a client
   * registered there under the same name makes room. Throws `UNKNOWN_SCOPE`, `DUPLICATE_TOOL`, `INVALID_DEFINITION`,
   * `UNSUPPORTED_SCHEMA`, `RATE_LIMITED`, or `StoreUnavailableError`.
   */
  async register(
    author: Author,
    scopeId: string | undefined,
    given: readonly WireRegistration[],
    replaces: Consent = () => false
  ): Promise<Scope> {
    const id = scopeId ?? author.reach.id
    const scope = this.#reached(author, id)
    this.#assertDescriptions(given)
    assertDistinct(given)
    // Costs time, and needs nothing of what other changes make.
    const definitions: ToolDefinition[] = []
    for (const each of given) {
      definitions.push(await this.#compiling.run(() => this.#options.make(each, scope)))
    }
    return this.#options.inTurn(async () => {
      if (this.#reached(author, id) !== scope) throw unknownScope(id)
      const former = this.#makeRoom(scope, given, replaces)
      this.#assertRoom(scope, given.length - former.length)
      const stored = given.map(({ tool, executor }): StoredTool => {
        return { above: idsAbove(scope), tool, executor, createdAt: this.#options.now() }
      })
      const writes: TableWrite[] = []
      const slices = new Slices()
      for (const each of stored) {
        writes.push(...writeTool(scope.id, each))
        await slices.next()
      }
      await this.#options.log.append({ writes })
      await this.#swap(
        scope,
        former,
        stored.map((each, index) => ({ stored: each, definition: definitions[index]! }))
      )
      this.#options.used(scope)
      return scope
    })
  }

  /**
   * Takes a tool away that a client registered in this very scope; false when there is none. Throws `UNKNOWN_SCOPE`, `FORBIDDEN` for
   * other tools and where `mayGo` does not consent, or `StoreUnavailableError`.
   */
  remove(author: Author, scopeId: string | undefined, name: string, mayGo: Consent = () => true): Promise<boolean> {
    return this.#options.inTurn(async () => {
      const { log, registry } = this.#options
      const scope = this.#reached(author, scopeId ?? author.reach.id)
      const held = this.#heldIn(scope).get(name)
      // One that did not come back after a restart is still stored.
      const row = held === undefined ? await toolRow(log, scope.id, name) : undefined
      if (held === undefined && row === undefined) {
        if (!registry.isTaken(name, scope)) return false
        throw new RequestError('FORBIDDEN', `The tool "${name}" is the server's own.`)
      }
      const stored = held?.stored ?? legible(row)
      if (stored !== undefined && !mayGo(stored)) {
        throw new RequestError('FORBIDDEN', `This token may not take the tool "${name}" away.`)
      }
      await log.append({ writes: [eraseTool(scope.id, name)] })
      if (held !== undefined) this.#takeAway(scope, name, held)
      this.#options.used(scope)
      return true
    })
  }

  /** Brings back what is stored, in order of registration; once, when the scopes are there. What cannot come back is warned of. */
  restore(): Promise<void> {
    const { log, tree, warn, make } = this.#options
    return restoreTools({
      log,
      tree,
      warn,
      adopt: async (scope, stored) => {
        // It compiled once: on a machine that is busy with its start the first try may take too long.
        const definition = await make(stored, scope).catch(() => make(stored, scope))
        this.#hold(scope, stored, definition)
      }
    })
  }

  #assertDescriptions(given: readonly WireRegistration[]): void {
    const max = this.#options.limits.maxDescriptionBytes
    for (const { tool } of given) {
      if (Buffer.byteLength(tool.description) <= max) continue
      throw new RequestError('INVALID_DEFINITION', `"description" is larger than ${max} bytes.`)
    }
  }

  #makeRoom(scope: Scope, given: readonly WireRegistration[], replaces: Consent): [string, Held][] {
    const former: [string, Held][] = []
    for (const { tool } of given) {
      if (!this.#options.registry.isTaken(tool.name, scope)) continue
      const held = this.#heldIn(scope).get(tool.name)
      if (held === undefined || !replaces(held.stored)) throw duplicate(tool.name, scope)
      former.push([tool.name, held])
    }
    return former
  }

  #assertRoom(scope: Scope, more: number): void {
    const { limits, tree } = this.#options
    assertLimit('tools.maxPerScope', this.#heldIn(scope).size + more, limits.maxPerScope)
    const all = tree.all().reduce((sum, each) => sum + (this.#held.get(each)?.size ?? 0), 0)
    assertLimit('tools.max', all + more, limits.max)
  }

  /** Puts the new ones in the place of the former, or, when one cannot be put into force, leaves the former and takes the new ones back. */
  async #swap(
    scope: Scope,
    former: readonly [string, Held][],
    next: readonly Pick<Held, 'stored' | 'definition'>[]
  ): Promise<void> {
    const places = new Map(former)
    const slices = new Slices()
    try {
      for (const { stored, definition } of next) {
        const held = places.get(stored.tool.name)
        if (held !== undefined) this.#takeAway(scope, stored.tool.name, held)
        this.#hold(scope, stored, definition)
        await slices.next()
      }
    } catch (error) {
      const writes = next.map(({ stored }) => eraseTool(scope.id, stored.tool.name))
      for (const { stored } of next) {
        const held = this.#heldIn(scope).get(stored.tool.name)
        if (held?.stored === stored) this.#takeAway(scope, stored.tool.name, held)
      }
      for (const [name, { stored, definition }] of former) {
        try {
          if (this.#heldIn(scope).get(name)?.stored !== stored) this.#hold(scope, stored, definition)
          writes.push(...writeTool(scope.id, stored))
        } catch (again) {
          this.#options.warn('a tool could not be put back', { err: again, scope: scope.id, tool: stored.tool.name })
        }
      }
      await this.#takeBack(scope, writes)
      throw this.#options.tree.isLive(scope) ? error : unknownScope(scope.id)
    }
  }

  /** Nobody was promised what could not be put into force. */
  async #takeBack(scope: Scope, writes: TableWrite[]): Promise<void> {
    try {
      await this.#options.log.append({ writes })
    } catch (error) {
      this.#options.warn('tools that could not be registered are still stored', { err: error, scope: scope.id })
    }
  }

  #hold(scope: Scope, stored: StoredTool, definition: ToolDefinition): void {
    const undo = this.#options.registry.register(scope, definition)
    this.#heldIn(scope).set(stored.tool.name, { stored, definition, undo })
  }

  #takeAway(scope: Scope, name: string, { undo }: Held): void {
    this.#heldIn(scope).delete(name)
    try {
      undo()
    } catch (error) {
      // The tool is gone by now: a listener to the change threw.
      this.#options.warn('a listener to a change of tools failed', { err: error, scope: scope.id, tool: name })
    }
  }

  #heldIn(scope: Scope): Map<string, Held> {
    let held = this.#held.get(scope)
    if (held === undefined) this.#held.set(scope, (held = new Map<string, Held>()))
    return held
  }

  #reached(author: Author, id: string): Scope {
    const scope = this.#options.tree.get(id)
    assertReached(author, id, scope)
    return scope
  }
}

function assertDistinct(given: readonly WireRegistration[]): void {
  const names = new Set<string>()
  for (const { tool } of given) {
    if (names.has(tool.name)) throw new RequestError('DUPLICATE_TOOL', `The tool "${tool.name}" stands there twice.`)
    names.add(tool.name)
  }
}

const duplicate = (name: string, scope: Scope): RequestError =>
  new RequestError('DUPLICATE_TOOL', `A tool "${name}" is registered in scope "${scope.id}" already.`)

const unknownScope = (id: string): RequestError => new RequestError('UNKNOWN_SCOPE', `There is no scope "${id}".`)
