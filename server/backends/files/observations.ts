import { type ChangeGuard, type ChangeOptions, FileError, type ResolvedPath } from './files.ts'

/** Files that one session may know; the ones it has not looked at for longest are forgotten, which asks for a read at worst. */
const MAX_FILES = 20_000

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
    seen.delete(targetKey)
    this.#byOwner.set(owner, seen.set(targetKey, observation))
    const [oldest] = seen.keys()
    if (seen.size > MAX_FILES && oldest !== undefined) seen.delete(oldest)
  }

  /** `undefined` when the owner never looked. */
  seen(owner: object | undefined, targetKey: string): Observation | undefined {
    return owner === undefined ? undefined : this.#byOwner.get(owner)?.get(targetKey)
  }

  /**
   * What lets the owner change a file only as it knows it, and remembers what it makes of it. A file that it never read is only
   * created (`write`), or not changed at all (`edit`: FS_NOT_OBSERVED, or FS_NOT_FOUND when it looked and there was none).
   */
  changeBy(owner: object | undefined, target: ResolvedPath, kind: 'write' | 'edit'): ChangeOptions {
    const { targetKey } = target
    return {
      agent: owner,
      guard: () => (kind === 'write' ? this.#writeGuard(owner, targetKey) : this.#editGuard(owner, target)),
      onChanged: (version) => this.observe(owner, targetKey, { state: 'present', version })
    }
  }

  #writeGuard(owner: object | undefined, targetKey: string): ChangeGuard {
    const seen = this.seen(owner, targetKey)
    return seen?.state === 'present' ? { kind: 'replaceIfVersion', version: seen.version } : { kind: 'createIfAbsent' }
  }

  #editGuard(owner: object | undefined, { targetKey, displayPath }: ResolvedPath): ChangeGuard {
    const seen = this.seen(owner, targetKey)
    if (seen?.state === 'present') return { kind: 'replaceIfVersion', version: seen.version }
    throw seen === undefined
      ? new FileError('FS_NOT_OBSERVED', `${displayPath}: has not been read`)
      : new FileError('FS_NOT_FOUND', `${displayPath}: there is no such file`)
  }
}

declare module '../../services.ts' {
  interface Services {
    observations: Observations
  }
}
