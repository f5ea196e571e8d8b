import type { EventLog, TableWrite } from '../event-log/event-log.ts'
import type { Scope } from '../scopes/scope.ts'
import type { ScopeTree } from '../scopes/scope-tree.ts'
import { assertReached, type Author } from './check-change.ts'
import { eraseFormer, eraseRow, idsAbove, rememberedAbove, writeFormer } from './stored-scope.ts'

/** Rows of one scope: all of them, or some would outlive it. */
const maxRows = 1_000_000

/**
 * What is stored under the ids of scopes. Sessions and tokens outlive their scope and belong to its id, so an id remembers where its last
 * scope was: who could not reach that one cannot make the id their own, and neither read its sessions nor be reached by its tokens
 * (reliability.md §1.12).
 */
export class ScopeTraces {
  readonly #log: EventLog
  readonly #tree: ScopeTree
  readonly #isBound: (id: string) => boolean

  /** `isBound` tells whether something that is in use reaches the scope of an id, or would reach it. */
  constructor(log: EventLog, tree: ScopeTree, isBound: (id: string) => boolean) {
    this.#log = log
    this.#tree = tree
    this.#isBound = isBound
  }

  /** What has to go before a new scope has this id. Throws `UNKNOWN_SCOPE`, as for any id that is taken out of the author's reach. */
  async succession(author: Author, id: string): Promise<TableWrite[]> {
    const rows = await this.#log.rows('registrations', { scope: id }, maxRows)
    const remembered = rows.flatMap((row) => rememberedAbove(row) ?? [])
    // A token may name a scope that is yet to be made: where, only who reaches everything can say.
    if (remembered.length === 0 && this.#isBound(id)) remembered.push({ above: ['global'], isFormer: true })
    const isClaimed = await this.#isClaimed(id)
    for (const { above, isFormer } of remembered) {
      if (isFormer && !isClaimed) continue
      if (!above.includes(author.reach.id)) assertReached(author, id, undefined)
    }
    return rows.map(eraseRow)
  }

  /** Erases all rows about the scope and those below it, whatever they register, and remembers where the scopes were. */
  async erasure(scope: Scope, now: number): Promise<TableWrite[]> {
    const writes: TableWrite[] = []
    for (const gone of this.#tree.subtree(scope)) writes.push(...(await this.erasureOf(gone.id, idsAbove(gone), now)))
    return writes
  }

  async erasureOf(id: string, above: readonly string[], now: number): Promise<TableWrite[]> {
    const rows = await this.#log.rows('registrations', { scope: id }, maxRows)
    return [...rows.map(eraseRow), writeFormer(id, { above }, now)]
  }

  /** Forgets the scopes that are gone and have no sessions, and nothing that reached them. */
  async forget(ids: readonly string[]): Promise<void> {
    const writes: TableWrite[] = []
    for (const id of ids) {
      if (this.#tree.get(id) === undefined && !(await this.#isClaimed(id))) writes.push(eraseFormer(id))
    }
    if (writes.length > 0) await this.#log.append({ writes })
  }

  async #isClaimed(id: string): Promise<boolean> {
    return this.#isBound(id) || (await this.#log.rows('sessions', { scope: id }, 1)).length > 0
  }
}
