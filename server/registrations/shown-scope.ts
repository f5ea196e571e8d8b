import type { Scope } from '../scopes/scope.ts'
import type { Undo } from '../scopes/slots.ts'
import type { Mode } from '../tools/presentation.ts'
import type { Registry } from '../tools/registry.ts'
import type { StoredScope } from './stored-scope.ts'

/** What clients registered of a live scope, with the undos of what of it is in force. */
export class ShownScope {
  readonly #registry: Registry
  readonly #scope: Scope
  readonly #masks = new Map<string, Undo>()
  #mode: { readonly is: Mode; readonly undo: Undo } | undefined
  stored: StoredScope

  constructor(registry: Registry, scope: Scope, stored: StoredScope) {
    this.#registry = registry
    this.#scope = scope
    this.stored = stored
  }

  /**
   * Puts into force what `next` says, and nothing else of what clients registered before. All of it, or, when a listener to
   * `tools/change` throws, what was in force before; then its error is thrown.
   */
  show(next: StoredScope): void {
    try {
      this.#converge(next)
    } catch (error) {
      try {
        this.#converge(this.stored)
      } catch {
        // The listener throws again; its first error tells why.
      }
      throw error
    }
    this.stored = next
  }

  /** New masks come first and old ones go last: in between, the scope sees too little, never too much. */
  #converge({ restrict, presentAs }: StoredScope): void {
    for (const mask of restrict) {
      if (this.#masks.has(mask.id)) continue
      // A stored mask stands also where it names a tool that is not there (api.md §3); who adds one is told before.
      this.#masks.set(mask.id, this.#registry.restrict(this.#scope, mask, { unknownNames: 'keep' }))
    }
    if (this.#mode?.is !== presentAs) {
      const before = this.#mode
      this.#mode = undefined
      before?.undo()
      if (presentAs !== undefined) {
        this.#mode = { is: presentAs, undo: this.#registry.presentAs(this.#scope, presentAs) }
      }
    }
    const wanted = new Set(restrict.map(({ id }) => id))
    for (const [id, undo] of this.#masks) {
      if (wanted.has(id)) continue
      this.#masks.delete(id)
      undo()
    }
  }
}
