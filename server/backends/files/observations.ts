/** What somebody knows of a file (backends.md §6.2). */
export type Observation = { state: 'absent' } | { state: 'present'; version: string }

/**
 * What each session has seen of which file, in memory only (backends.md §6.2). The owner is the session's live object; a call
 * without one has seen nothing, ever.
 */
export class Observations {
  readonly #byOwner = new WeakMap<object, Map<string, Observation>>()

  /** `targetKey` as Files resolves it, so that all aliases of a file count as one. */
  observe(owner: object | undefined, targetKey: string, observation: Observation): void {
    if (owner === undefined) return
    const seen = this.#byOwner.get(owner) ?? new Map<string, Observation>()
    this.#byOwner.set(owner, seen.set(targetKey, observation))
  }

  /** `undefined` when the owner never looked. */
  seen(owner: object | undefined, targetKey: string): Observation | undefined {
    return owner === undefined ? undefined : this.#byOwner.get(owner)?.get(targetKey)
  }
}

declare module '../../services.ts' {
  interface Services {
    observations: Observations
  }
}
