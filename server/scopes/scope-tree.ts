import { Scope } from './scope.ts'

/** The one tree of scopes: the global scope is its root and exists always (architecture.md §4). */
export class ScopeTree {
  readonly global = new Scope('global')
  readonly #byId = new Map<string, Scope>([['global', this.global]])
  readonly #children = new Map<Scope, Set<Scope>>()

  get(id: string): Scope | undefined {
    return this.#byId.get(id)
  }

  /** False once a scope was removed, also when another one has its id by now. */
  isLive(scope: Scope): boolean {
    return this.#byId.get(scope.id) === scope
  }

  all(): Scope[] {
    return [...this.#byId.values()]
  }

  /** Throws when the id is taken: a scope's parent is bound once (core.md §7.1). */
  create(id: string, parent: Scope = this.global): Scope {
    if (this.#byId.has(id)) throw new Error(`scope "${id}" exists already`)
    if (!this.isLive(parent)) throw new Error(`scope "${parent.id}" is disposed`)
    const scope = new Scope(id, parent)
    this.#byId.set(id, scope)
    const siblings = this.#children.get(parent) ?? new Set()
    siblings.add(scope)
    this.#children.set(parent, siblings)
    return scope
  }

  children(scope: Scope): Scope[] {
    return [...(this.#children.get(scope) ?? [])]
  }

  /** The scope and all below it, deepest first: the order in which they are undone. */
  subtree(scope: Scope): Scope[] {
    const order: Scope[] = []
    const stack = [scope]
    for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
      order.push(next)
      stack.push(...this.children(next))
    }
    return order.toReversed()
  }

  /**
   * Takes a leaf out of the tree; its id is free again. The global scope and one with children stay; one that is out already is
   * left alone, as its id may be another scope's by now.
   */
  remove(scope: Scope): void {
    if (scope.parent === undefined) throw new Error('the global scope cannot be removed')
    if (!this.isLive(scope)) return
    if (this.children(scope).length > 0) throw new Error(`scope "${scope.id}" still has children`)
    this.#byId.delete(scope.id)
    this.#children.get(scope.parent)?.delete(scope)
    this.#children.delete(scope)
  }
}
