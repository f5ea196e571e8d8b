/** Takes back one registration; calling it again does nothing. */
export type Undo = () => void

/** Names one kind of registration that a scope can hold. Whoever owns the kind makes the key, once, at module level. */
export interface SlotKey<T> {
  readonly name: string
  readonly __type?: T
}

export const slotKey = <T>(name: string): SlotKey<T> => ({ name })

/** The registrations of one kind in one scope, in order. The same value added twice is two registrations (core.md §11.3). */
export class Slot<T> {
  #entries: readonly { readonly value: T }[] = []
  #values: readonly T[] = []

  get size(): number {
    return this.#values.length
  }

  /**
   * A registration goes last, or first with `prepend` (core.md §9.1). The undo says whether it took anything back: false when
   * it ran before, or the slot was cleared.
   */
  add(value: T, { prepend = false }: { prepend?: boolean } = {}): () => boolean {
    const entry = { value }
    this.#set(prepend ? [entry, ...this.#entries] : [...this.#entries, entry])
    return () => {
      if (!this.#entries.includes(entry)) return false
      this.#set(this.#entries.filter((other) => other !== entry))
      return true
    }
  }

  /** The registrations of this moment: later changes do not touch the returned array. Costs nothing to ask for. */
  values(): readonly T[] {
    return this.#values
  }

  clear(): void {
    this.#set([])
  }

  #set(entries: readonly { readonly value: T }[]): void {
    this.#entries = entries
    this.#values = entries.map((entry) => entry.value)
  }
}

/** Registrations of one kind that have unique names within a scope, in order of registration. */
export class NamedSlot<T> {
  readonly #values = new Map<string, T>()

  get(name: string): T | undefined {
    return this.#values.get(name)
  }

  /**
   * The caller has made sure that the name is free, and that the value is this registration's own object. The undo removes this
   * registration only, and says whether it did.
   */
  add(name: string, value: T): () => boolean {
    this.#values.set(name, value)
    return () => this.#values.get(name) === value && this.#values.delete(name)
  }

  entries(): IterableIterator<[string, T]> {
    return this.#values.entries()
  }

  clear(): void {
    this.#values.clear()
  }
}

/** The slots of one scope, made when first asked for. A key is used either for a slot or for a named slot. */
export class Slots {
  readonly #lists = new Map<SlotKey<unknown>, Slot<unknown>>()
  readonly #named = new Map<SlotKey<unknown>, NamedSlot<unknown>>()

  of<T>(key: SlotKey<T>): Slot<T> {
    let slot = this.#lists.get(key)
    if (slot === undefined) {
      slot = new Slot<unknown>()
      this.#lists.set(key, slot)
    }
    return slot as Slot<T>
  }

  named<T>(key: SlotKey<T>): NamedSlot<T> {
    let slot = this.#named.get(key)
    if (slot === undefined) {
      slot = new NamedSlot<unknown>()
      this.#named.set(key, slot)
    }
    return slot as NamedSlot<T>
  }

  /** Empties every slot: undos of what was in them do nothing from here on. */
  clear(): void {
    for (const slot of this.#lists.values()) slot.clear()
    for (const slot of this.#named.values()) slot.clear()
  }
}
