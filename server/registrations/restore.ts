import type { EventLog, Row } from '../event-log/event-log.ts'
import type { Scope } from '../scopes/scope.ts'
import type { ScopeTree } from '../scopes/scope-tree.ts'
import { declareMode } from '../tools/presentation.ts'
import { idsAbove, readScope, scopeRows, type StoredScope } from './stored-scope.ts'

/** Rows of one reading: the log's rows have no cursor. */
const maxRows = 1_000_000

export interface RestoreOptions {
  log: EventLog
  tree: ScopeTree
  /** Opens the child scope of that id, making it if need be. */
  open: (parent: Scope, id: string) => Scope
  adopt: (scope: Scope, stored: StoredScope) => void
  warn: (message: string, details: Record<string, unknown>) => void
}

/**
 * Brings the stored scopes back, parents first, after the plugins have made theirs (api.md §3). A scope whose place is not there
 * (a plugin no longer makes its parent) stays stored and out of sight, and the log says so: it is never put elsewhere, where other
 * masks and principals would be above it.
 */
export async function restoreScopes({ log, tree, open, adopt, warn }: RestoreOptions): Promise<void> {
  const rows = await log.rows('registrations', scopeRows, maxRows)
  const stored = rows.flatMap((row) => legible(row, warn))
  stored.sort((a, b) => depthOf(a.stored) - depthOf(b.stored))
  for (const { id, stored: each } of stored) {
    const scope = place(tree, id, each, open)
    if (scope === undefined) warn('a stored scope has no place now', { scope: id, above: each.above })
    else adopt(scope, withoutConflict(scope, each, warn))
  }
}

function legible(row: Row, warn: RestoreOptions['warn']): { id: string; stored: StoredScope }[] {
  const id = String(row['scope'])
  try {
    return [{ id, stored: readScope(row) }]
  } catch (error) {
    warn('a stored scope is not readable', { scope: id, err: error })
    return []
  }
}

// What plugins make is there already, so what was changed of it can come first.
const depthOf = ({ above }: StoredScope): number => above?.length ?? 0

function place(tree: ScopeTree, id: string, { above }: StoredScope, open: RestoreOptions['open']): Scope | undefined {
  const existing = tree.get(id)
  if (above === undefined) return existing
  const parent = tree.get(above.at(-1) ?? '')
  if (parent === undefined || [...idsAbove(parent), parent.id].join('\n') !== above.join('\n')) return undefined
  if (existing !== undefined) return existing.parent === parent ? existing : undefined
  return open(parent, id)
}

/** A plugin that declares the mode itself by now has the say. */
function withoutConflict(scope: Scope, stored: StoredScope, warn: RestoreOptions['warn']): StoredScope {
  if (stored.presentAs === undefined) return stored
  try {
    declareMode(scope, stored.presentAs)()
    return stored
  } catch (error) {
    warn('the stored mode of a scope is not in force', { scope: scope.id, err: error })
    const { presentAs: _mode, ...rest } = stored
    return rest
  }
}
