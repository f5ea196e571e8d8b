import { type NamedSlot, type Slot, type SlotKey, Slots } from './slots.ts'

/**
 * A node that owns registrations (core.md §7.1). Its parent is bound once; everything a scope holds lives in its slots, so that
 * the tree knows nothing of tools, hooks or guards.
 */
export class Scope {
  readonly id: string
  readonly parent: Scope | undefined
  /** From the root ancestor to this scope (core.md §7.2). */
  readonly chain: readonly Scope[]
  readonly #slots = new Slots()

  constructor(id: string, parent?: Scope) {
    this.id = id
    this.parent = parent
    this.chain = parent === undefined ? [this] : [...parent.chain, this]
  }

  slot<T>(key: SlotKey<T>): Slot<T> {
    return this.#slots.of(key)
  }

  named<T>(key: SlotKey<T>): NamedSlot<T> {
    return this.#slots.named(key)
  }

  isWithin(other: Scope): boolean {
    return this.chain.includes(other)
  }

  /** Takes back everything at once, whoever registered it (core.md §6.4). */
  clear(): void {
    this.#slots.clear()
  }
}

/**
 * An agent is the live object of one session in one scope (core.md, head; api.md §2): hooks, guards and jobs know it by
 * identity. The pipeline needs no more of it than this.
 */
export interface Agent {
  /** The session's id. */
  readonly id: string
  readonly scope: Scope
}
