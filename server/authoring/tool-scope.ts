import type { ExecutionInput } from '../pipeline/execution.ts'
import { addGuard, type Guard } from '../pipeline/guard.ts'
import { addHook, type Hooks } from '../pipeline/hooks.ts'
import type { ToolResult } from '../pipeline/result.ts'
import type { Scope } from '../scopes/scope.ts'
import type { ScopeTree } from '../scopes/scope-tree.ts'
import { slotKey, type Undo } from '../scopes/slots.ts'
import type { ToolDefinition, ToolSchema } from '../tools/definition.ts'
import type { Mode } from '../tools/presentation.ts'
import type { Registry } from '../tools/registry.ts'
import type { Mask } from '../tools/restriction.ts'
import { assertPlugin, type Plugin, pluginKey, servicesFor } from './plugin.ts'

/** What scopes stand on. */
export interface ToolEngine {
  readonly tree: ScopeTree
  readonly registry: Registry
  readonly pipeline: {
    execute(input: ExecutionInput): Promise<ToolResult>
    executionMode(input: ExecutionInput): { kind: 'parallel' | 'exclusive' }
    /** Resolves when the calls in flight of a scope and of all below it have settled. */
    quiet(scope: Scope): Promise<void>
  }
  /** Finds what a mounted plugin `needs`, by name; undefined when there is no such service. */
  service?(name: string): unknown
}

/** The pipeline's stages (architecture.md §4), and `onChange` for `tools/change`, which knows no scope (core.md §7.14). */
export interface ScopeHooks extends Hooks {
  onChange: () => void
}

/** A plugin on a scope. `dispose` takes back what the plugin registered, then awaits quiet. */
export interface Mounted {
  readonly name: string
  dispose(): Promise<void>
}

type Closer = () => void | Promise<void>

const handles = slotKey<ToolScope>('handle')
const closers = slotKey<Closer>('closers')
const undos = slotKey<Undo>('undos')

/** The one handle of a scope. */
export function toolScopeOf(engine: ToolEngine, scope: Scope): ToolScope {
  const [handle] = scope.slot(handles).values()
  if (handle !== undefined) return handle
  const made = new ToolScope(engine, scope)
  scope.slot(handles).add(made)
  return made
}

/**
 * A scope as plugins and the wire know it. Every registration returns its idempotent undo, and throws once the scope, or the
 * mount that this handle belongs to, is disposed.
 */
export class ToolScope {
  readonly scope: Scope
  protected readonly engine: ToolEngine
  #disposal: Promise<void> | undefined

  constructor(engine: ToolEngine, scope: Scope) {
    this.engine = engine
    this.scope = scope
  }

  get id(): string {
    return this.scope.id
  }

  get parent(): ToolScope | undefined {
    return this.scope.parent === undefined ? undefined : toolScopeOf(this.engine, this.scope.parent)
  }

  /** Registers a tool here, seen by this scope and all below it (core.md §6). */
  register(definition: ToolDefinition): Undo {
    return this.keep(() => this.engine.registry.register(this.scope, definition))
  }

  /** Masks what this scope inherits; its own tools stay visible (core.md §7.5). */
  restrict(mask: Mask): Undo {
    return this.keep(() => this.engine.registry.restrict(this.scope, mask))
  }

  /** Declares how the tools are shown to the models of this scope and all below it (core.md §7.7). */
  presentAs(mode: Mode): Undo {
    return this.keep(() => this.engine.registry.presentAs(this.scope, mode))
  }

  /** Adds a refusal that no hook can flip back (core.md §11). */
  guard(guard: Guard): Undo {
    return this.keep(() => addGuard(this.scope, guard))
  }

  /** Hangs a hook on a stage, last, or first with `prepend` (core.md §9.1). */
  addHook<Stage extends keyof ScopeHooks>(
    stage: Stage,
    hook: ScopeHooks[Stage],
    options: { prepend?: boolean } = {}
  ): Undo {
    return this.keep(() => {
      if (stage !== 'onChange') return addHook(this.scope, stage, hook, options)
      // Listeners to changes stand in no scope; the scope only owns the undo.
      const undo = this.engine.registry.onChange(hook as ScopeHooks['onChange'], options)
      const disown = this.scope.slot(undos).add(undo)
      return () => {
        disown()
        undo()
      }
    })
  }

  /** Runs at disposal, once the calls in flight have settled, last registered first: to close what the tools were using. */
  onDispose(close: Closer): Undo {
    return this.keep(() => this.scope.slot(closers).add(close))
  }

  /** The definition that a name has here (core.md §7.13). */
  get(name: string): ToolDefinition | undefined {
    return this.engine.registry.lookup(name, this.scope)
  }

  /** The catalogue of this scope (core.md §7.11). */
  schemas(): ToolSchema[] {
    return this.engine.registry.schemas(this.scope)
  }

  /** Runs a call through the whole pipeline; `input` says for which agent. */
  execute(input: ExecutionInput): Promise<ToolResult> {
    return this.engine.pipeline.execute(input)
  }

  /** Whether this very call may overlap others (core.md §21). */
  executionMode(input: ExecutionInput): { kind: 'parallel' | 'exclusive' } {
    return this.engine.pipeline.executionMode(input)
  }

  /** Opens the child scope of that id, making it if need be. Throws when the id is a scope's elsewhere in the tree. */
  child(id: string): ToolScope {
    this.requireLive()
    const scope = this.engine.tree.get(id) ?? this.engine.tree.create(id, this.scope)
    if (scope.parent !== this.scope) throw new Error(`scope "${id}" is not a child of "${this.id}"`)
    return toolScopeOf(this.engine, scope)
  }

  /**
   * Puts a plugin on this scope and awaits its body. A body that fails, or outlives the scope, undoes what it had registered, and
   * the promise rejects. `service` finds what the plugin needs, by default among the engine's services.
   */
  async mount<Options extends object>(
    plugin: Plugin<Options>,
    options: Options = {} as Options,
    service: (name: string) => unknown = (name) => this.engine.service?.(name)
  ): Promise<Mounted> {
    this.requireLive()
    assertPlugin(plugin)
    const { name, body } = plugin[pluginKey]
    const services = servicesFor(plugin, service)
    const mount = new Mount(this.engine, this.scope, name)
    this.adopt(mount, mount)
    try {
      await body(mount, services as never, options)
      mount.requireLive()
    } catch (error) {
      // Why the body failed matters more than what went wrong while clearing up after it.
      await mount.dispose().catch(() => {})
      throw error
    }
    return mount
  }

  /**
   * Takes back everything of this scope and of all below it, deepest first; then awaits their calls in flight, and then what
   * `onDispose` registered. The scope's id is free at once. A call that awaits the disposal of its own scope waits for ever.
   * Rejects, when all is done, with what a listener or closer threw. The global scope cannot be disposed.
   */
  dispose(): Promise<void> {
    this.#disposal ??= this.disposeOnce()
    return this.#disposal
  }

  /** Throws when nothing may be registered any more. */
  requireLive(): void {
    if (!this.engine.tree.isLive(this.scope)) throw new Error(`scope "${this.id}" is disposed`)
  }

  protected keep(register: () => Undo): Undo {
    this.requireLive()
    return register()
  }

  /** A mount owns what is mounted through it; a scope needs no list, as its slots hold all there is. */
  protected adopt(_key: object, _owned: ToolScope): void {}

  protected async disposeOnce(): Promise<void> {
    const { tree, registry } = this.engine
    if (this.scope.parent === undefined) throw new Error('the global scope cannot be disposed')
    if (!tree.isLive(this.scope)) return this.engine.pipeline.quiet(this.scope)
    const subtree = tree.subtree(this.scope)
    const toClose = subtree.flatMap((scope) => scope.slot(closers).values().toReversed())
    for (const scope of subtree) {
      for (const undo of scope.slot(undos).values()) undo()
      scope.clear()
      tree.remove(scope)
    }
    await settle([() => registry.changed(), () => this.engine.pipeline.quiet(this.scope), ...toClose])
  }
}

/** The handle that a plugin's body gets: a view of the scope that owns what is registered through it. */
class Mount extends ToolScope implements Mounted {
  readonly name: string
  readonly #undos = new Set<Undo>()
  readonly #closers = new Set<{ close: Closer; drop: () => boolean }>()
  /** Child scopes by their scope, nested mounts by themselves. */
  readonly #owned = new Map<object, ToolScope>()
  #isOver = false

  constructor(engine: ToolEngine, scope: Scope, name: string) {
    super(engine, scope)
    this.name = name
  }

  override onDispose(close: Closer): Undo {
    this.requireLive()
    const drop = this.scope.slot(closers).add(close)
    const closer = { close, drop }
    this.#closers.add(closer)
    return () => {
      this.#closers.delete(closer)
      drop()
    }
  }

  /** A child that was there before outlives the mount, without what the plugin registered in it. */
  override child(id: string): ToolScope {
    const isNew = this.engine.tree.get(id) === undefined
    const child = super.child(id)
    const known = this.#owned.get(child.scope)
    if (known !== undefined) return known
    const owned = isNew ? child : new Mount(this.engine, child.scope, this.name)
    this.adopt(child.scope, owned)
    return owned
  }

  override requireLive(): void {
    super.requireLive()
    if (this.#isOver) throw new Error(`the mount of plugin "${this.name}" is disposed`)
  }

  protected override keep(register: () => Undo): Undo {
    const undo = super.keep(register)
    const owned = (): void => {
      this.#undos.delete(owned)
      undo()
    }
    this.#undos.add(owned)
    return owned
  }

  protected override adopt(key: object, owned: ToolScope): void {
    this.#owned.set(key, owned)
    owned.onDispose(() => {
      this.#owned.delete(key)
    })
  }

  protected override async disposeOnce(): Promise<void> {
    this.#isOver = true
    const failures: unknown[] = []
    const below = Promise.allSettled([...this.#owned.values()].map((owned) => owned.dispose()))
    for (const undo of [...this.#undos].toReversed()) {
      try {
        undo()
      } catch (error) {
        failures.push(error)
      }
    }
    // What the scope's own disposal has taken is closed by it.
    const toClose = [...this.#closers].filter(({ drop }) => drop()).toReversed()
    for (const outcome of await below) if (outcome.status === 'rejected') failures.push(outcome.reason)
    await settle([() => this.engine.pipeline.quiet(this.scope), ...toClose.map(({ close }) => close)], failures)
  }
}

/** Runs all steps in order, whichever of them fail, and then throws the failures. */
async function settle(steps: readonly Closer[], failures: unknown[] = []): Promise<void> {
  for (const step of steps) {
    try {
      await step()
    } catch (error) {
      failures.push(error)
    }
  }
  if (failures.length === 1) throw failures[0]
  if (failures.length > 1) throw new AggregateError(failures, 'several steps of a disposal failed')
}
