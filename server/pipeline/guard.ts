import type { Scope } from '../scopes/scope.ts'
import { type Undo, slotKey } from '../scopes/slots.ts'
import type { Execution } from './execution.ts'
import { disown } from './result.ts'

/** A refusal that nothing can flip back: a string denies, `undefined` abstains (core.md §11). */
export type Guard = (exec: Execution) => string | undefined

/**
 * A scope's guards. The set is iterated live, so a guard added by a running guard is still asked; once it is empty it leaves
 * its slot, and what is added then waits for the next call (core.md §11.4).
 */
interface GuardTable {
  readonly entries: Set<{ readonly guard: Guard }>
  readonly leave: Undo
}

const guards = slotKey<GuardTable>('guards')

/** Adds a guard for the calls of this scope and its descendants. The same function twice is two registrations (core.md §11.3). */
export function addGuard(scope: Scope, guard: Guard): Undo {
  if (typeof guard !== 'function') throw new TypeError('a guard must be a function')
  const table = scope.slot(guards).values()[0] ?? openTable(scope)
  const entry = { guard }
  table.entries.add(entry)
  return () => {
    if (table.entries.delete(entry) && table.entries.size === 0) table.leave()
  }
}

function openTable(scope: Scope): GuardTable {
  const table: GuardTable = { entries: new Set(), leave: () => drop() }
  const drop = scope.slot(guards).add(table)
  return table
}

/** The first refusal along the chain, global scope first; throws what a guard throws (core.md §11.2, §11.5). */
export function guardRefusal(exec: Execution, chain: readonly Scope[]): string | undefined {
  for (const scope of chain) {
    for (const { entries } of scope.slot(guards).values()) {
      for (const { guard } of entries) {
        const answer: unknown = guard(exec)
        if (answer === undefined) continue
        if (typeof answer === 'string') return answer
        disown(answer)
        return 'a guard returned an invalid value'
      }
    }
  }
  return undefined
}
