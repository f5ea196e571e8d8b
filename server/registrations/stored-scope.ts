import type { Row, TableWrite } from '../event-log/event-log.ts'
import type { JsonValue } from '../json/lossless.ts'
import { parseJson } from '../json/parse-text.js'
import { stringifyJson } from '../json/serialize.ts'
import type { Scope } from '../scopes/scope.ts'
import type { Mode } from '../tools/presentation.ts'
import type { Mask } from '../tools/restriction.ts'

/** A mask with the id under which it can be taken back. */
export interface StoredMask extends Mask {
  id: string
}

/** What clients registered of one scope, as it is stored: one row, so that each change of it is one write. */
export interface StoredScope {
  /** Ids from the root to the parent; absent for a scope that the server's own plugins make, and clients only changed. */
  above?: readonly string[]
  presentAs?: Mode
  restrict: readonly StoredMask[]
  /** Idle time, in milliseconds, after which the scope is disposed. */
  ttlMs?: number
  /** Epoch milliseconds; behind the last use by at most `usedLagMs`. */
  usedAt: number
  createdAt: number
}

/** Where a disposed scope was, while sessions or tokens of it are left: who did not reach it must not inherit them with its id. */
export interface FormerScope {
  above: readonly string[]
}

const scopeKind = 'scope'
const formerKind = 'former-scope'

/** How far the stored time of the last use may lag behind, in milliseconds: writing each use would double the writes. */
export const usedLagMs = (ttlMs: number): number => Math.max(ttlMs / 4, 1_000)

export const idsAbove = (scope: Scope): string[] => scope.chain.slice(0, -1).map(({ id }) => id)

export const scopeRows = { kind: scopeKind } as const

export const writeScope = (id: string, stored: StoredScope): TableWrite => {
  const { createdAt, ...data } = stored
  return put(scopeKind, id, data as unknown as JsonValue, createdAt)
}

export const writeFormer = (id: string, former: FormerScope, at: number): TableWrite =>
  put(formerKind, id, former as unknown as JsonValue, at)

export const eraseFormer = (id: string): TableWrite => ({
  table: 'registrations',
  op: 'delete',
  row: { kind: formerKind, scope: id, name: '' }
})

/** Takes a row away, of whatever kind it is. */
export const eraseRow = ({ kind, scope, name }: Row): TableWrite => ({
  table: 'registrations',
  op: 'delete',
  row: { kind: String(kind), scope: String(scope), name: String(name) }
})

/** Throws for a row that this code did not write. */
export function readScope(row: Row): StoredScope {
  const data = parseJson(String(row['data'])) as unknown as Omit<StoredScope, 'createdAt'>
  if (!Array.isArray(data.restrict) || !Number.isFinite(data.usedAt)) throw new TypeError('not the row of a scope')
  return { ...data, createdAt: Number(row['created_at']) }
}

/** The ids above a scope that a row remembers, whether it is there or not; undefined for rows that are about other things. */
export function rememberedAbove(row: Row): { above: readonly string[]; isFormer: boolean } | undefined {
  if (row['kind'] !== scopeKind && row['kind'] !== formerKind) return undefined
  return { above: aboveOf(row), isFormer: row['kind'] === formerKind }
}

/** What a row that cannot be read was about is for who reaches everything. */
function aboveOf(row: Row): readonly string[] {
  try {
    const { above } = parseJson(String(row['data'])) as unknown as Partial<FormerScope>
    return Array.isArray(above) ? above : ['global']
  } catch {
    return ['global']
  }
}

const put = (kind: string, scope: string, data: JsonValue, createdAt: number): TableWrite => ({
  table: 'registrations',
  op: 'put',
  row: { kind, scope, name: '', data: stringifyJson(data), created_at: createdAt }
})
