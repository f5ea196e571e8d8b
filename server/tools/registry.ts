import { snapshot } from '../json/lossless.ts'
import type { ExecutionToken } from '../pipeline/execution.ts'
import type { Scope } from '../scopes/scope.ts'
import type { ScopeTree } from '../scopes/scope-tree.ts'
import { type NamedSlot, Slot, slotKey, type Undo } from '../scopes/slots.ts'
import type { ToolDefinition, ToolSchema } from './definition.ts'
import { declareMode, type Mode, nearestMode } from './presentation.ts'
import { transportName } from './reserved-names.js'
import { addMask, isAdmitted, type Mask } from './restriction.ts'
import { snapshotDefinition } from './snapshot-definition.ts'

const toolsKey = slotKey<ToolDefinition>('tools')
const toolsOf = (scope: Scope): NamedSlot<ToolDefinition> => scope.named(toolsKey)

/** A name is taken in its layer. By name a plain `Error` (core.md §6.1); the wire answers it with `DUPLICATE_TOOL`. */
export class DuplicateToolError extends Error {}

/**
 * Who sees which tools (core.md §6, §7). Nothing is cached: a lookup walks the scope's chain, which costs a map look-up per
 * layer. A scope of `undefined` means the global view.
 */
export class Registry {
  readonly #tree: ScopeTree
  readonly #defaultMode: () => Mode
  readonly #transport: () => ToolDefinition | undefined
  readonly #listeners = new Slot<() => void>()

  /**
   * `defaultMode` is the deployment's (core.md §7.7). `transport` is code mode's `run_code`, once it is mounted: without it the
   * name is unknown, and no mode but native can be assembled (core.md §7.8).
   */
  constructor(options: {
    tree: ScopeTree
    defaultMode?: () => Mode
    transport?: ToolDefinition | (() => ToolDefinition | undefined)
  }) {
    const { tree, defaultMode = () => 'native', transport } = options
    this.#tree = tree
    this.#defaultMode = defaultMode
    this.#transport = typeof transport === 'function' ? transport : () => transport
  }

  get globalScope(): Scope {
    return this.#tree.global
  }

  /**
   * Registers a frozen copy of the definition in a scope. Throws, with nothing stored: `TypeError`, `JsonSchemaError`, a plain
   * `Error` for the reserved name, `DuplicateToolError`; or what a `tools/change` listener threw (core.md §6.1 to §6.6).
   */
  register(scope: Scope, given: ToolDefinition): Undo {
    this.#requireLive(scope)
    const definition = snapshotDefinition(given)
    const { name } = definition
    if (name === transportName) throw new Error(`the name "${name}" is reserved for programs`)
    const tools = toolsOf(scope)
    if (tools.get(name) !== undefined) {
      throw new DuplicateToolError(
        scope.parent === undefined
          ? `tool "${name}" is registered globally already; register it in an agent's scope to shadow it there`
          : `tool "${name}" is registered in this scope already`
      )
    }
    return this.#announce(tools.add(name, definition))
  }

  /**
   * Masks what a scope inherits (core.md §7.5). A mask that comes back from storage keeps names that are unknown by now
   * (api.md §3): `unknownNames: 'keep'`.
   */
  restrict(scope: Scope, mask: Mask, { unknownNames = 'refuse' }: { unknownNames?: 'refuse' | 'keep' } = {}): Undo {
    this.#requireLive(scope)
    return this.#announce(addMask(scope, mask, unknownNames === 'keep' ? undefined : this.#inherited(scope)))
  }

  /** Declares the mode of a scope and of all below it that declare none (core.md §7.7). */
  presentAs(scope: Scope, mode: Mode): Undo {
    this.#requireLive(scope)
    return this.#announce(declareMode(scope, mode))
  }

  /** The definition that a name has in a scope's view (core.md §7.3), or undefined, as for a name that never existed. */
  lookup(name: string, scope: Scope = this.globalScope): ToolDefinition | undefined {
    if (name === transportName) return this.effectiveMode(scope) === 'native' ? undefined : this.#transport()
    const own = toolsOf(scope).get(name)
    if (own !== undefined) return own
    for (let layer = scope.parent; layer !== undefined; layer = layer.parent) {
      const inherited = toolsOf(layer).get(name)
      if (inherited !== undefined) return isAdmitted(scope.chain, name) ? inherited : undefined
    }
    return undefined
  }

  /** Whether a name is registered in this very scope (core.md §6.1). */
  isTaken(name: string, scope: Scope): boolean {
    return toolsOf(scope).get(name) !== undefined
  }

  /** All of a scope's view, in view order, `run_code` last unless the mode is native (core.md §7.3). */
  view(scope: Scope = this.globalScope): ToolDefinition[] {
    const view = new Map<string, ToolDefinition>()
    // Setting a key that is there keeps its position: a shadowing tool stands where the shadowed one stood.
    for (const layer of scope.chain.slice(0, -1)) {
      for (const [name, definition] of toolsOf(layer).entries()) view.set(name, definition)
    }
    for (const name of view.keys()) if (!isAdmitted(scope.chain, name)) view.delete(name)
    for (const [name, definition] of toolsOf(scope).entries()) view.set(name, definition)
    const transport = this.lookup(transportName, scope)
    return transport === undefined ? [...view.values()] : [...view.values(), transport]
  }

  /** The catalogue: what a model may know of the view, as fresh objects of exactly three members (core.md §7.11). */
  schemas(scope?: Scope): ToolSchema[] {
    return this.view(scope).map(({ name, description, parameters }) => ({
      name,
      description,
      parameters: snapshot(parameters) as ToolSchema['parameters']
    }))
  }

  /** Every name before masks, the scope's own included (core.md §7.12). */
  knownNames(scope: Scope = this.globalScope): Set<string> {
    const names = this.#inherited(scope)
    for (const [name] of toolsOf(scope).entries()) names.add(name)
    return names
  }

  effectiveMode(scope: Scope = this.globalScope): Mode {
    return nearestMode(scope) ?? this.#defaultMode()
  }

  /**
   * Whether a direct call of a visible tool is refused because only programs may reach it (core.md §7.9). Calls made by a
   * running body (`parent`), invisible names and `run_code` never are.
   */
  isCollapsed(name: string, scope?: Scope, parent?: ExecutionToken): boolean {
    if (parent !== undefined || name === transportName || this.effectiveMode(scope) !== 'code') return false
    return this.lookup(name, scope) !== undefined
  }

  /** Hears `tools/change`: synchronous, without payload, for changes of any scope (core.md §6.5). */
  onChange(listener: () => void, options: { prepend?: boolean } = {}): Undo {
    return this.#listeners.add(listener, options)
  }

  /** Emits `tools/change`. All listeners hear it, then the first error that one threw is thrown. */
  changed(): void {
    const errors: unknown[] = []
    for (const listener of this.#listeners.values()) {
      try {
        listener()
      } catch (error) {
        errors.push(error)
      }
    }
    if (errors.length > 0) throw errors[0]
  }

  /** Tells of what was just stored; a listener that throws takes it back, and its error reaches the registrant (core.md §6.5). */
  #announce(takeBack: () => boolean): Undo {
    const undo = (): void => {
      if (takeBack()) this.changed()
    }
    try {
      this.changed()
    } catch (error) {
      try {
        undo()
      } catch {
        // The listener throws again at the undo: its first error is the one that tells why nothing was registered.
      }
      throw error
    }
    return undo
  }

  #inherited(scope: Scope): Set<string> {
    return new Set(scope.chain.slice(0, -1).flatMap((layer) => [...toolsOf(layer).entries()].map(([name]) => name)))
  }

  #requireLive(scope: Scope): void {
    if (!this.#tree.isLive(scope)) throw new Error(`scope "${scope.id}" is disposed`)
  }
}
