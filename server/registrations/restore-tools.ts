import type { EventLog, Row } from '../event-log/event-log.ts'
import type { Scope } from '../scopes/scope.ts'
import type { ScopeTree } from '../scopes/scope-tree.ts'
import { idsAbove } from './stored-scope.ts'
import { readTool, type StoredTool, toolRows } from './stored-tool.ts'

/** Rows of one reading: the log's rows have no cursor. */
const maxRows = 1_000_000

export interface RestoreToolsOptions {
  log: EventLog
  tree: ScopeTree
  /** Puts a tool into force. */
  adopt: (scope: Scope, stored: StoredTool) => Promise<void>
  warn: (message: string, details: Record<string, unknown>) => void
}

/**
 * Brings the stored tools back, in order of registration, after the scopes (api.md §3). One that cannot come back (its scope is not
 * where it was, a plugin has its name, what runs it is switched off) stays stored and out of sight, and the log says so.
 */
export async function restoreTools({ log, tree, adopt, warn }: RestoreToolsOptions): Promise<void> {
  for (const row of await log.rows('registrations', toolRows, maxRows)) {
    const about = { scope: String(row['scope']), tool: String(row['name']) }
    const stored = legible(row, (error) => warn('a stored tool is not readable', { ...about, err: error }))
    if (stored === undefined) continue
    const scope = tree.get(about.scope)
    if (scope === undefined || idsAbove(scope).join('\n') !== stored.above.join('\n')) {
      warn('the scope of a stored tool is not where it was', { ...about, above: stored.above })
      continue
    }
    await adopt(scope, stored).catch((error: unknown) =>
      warn('a stored tool could not be registered again', { ...about, err: error })
    )
  }
}

/** The tool of a row; undefined for one that is damaged. */
export function legible(row: Row | undefined, onError?: (error: unknown) => void): StoredTool | undefined {
  try {
    return row === undefined ? undefined : readTool(row)
  } catch (error) {
    onError?.(error)
    return undefined
  }
}
