import { randomBytes } from 'node:crypto'
import { stringifyJson } from '../json/serialize.ts'
import { RequestError } from '../errors.ts'
import { Scope } from '../scopes/scope.ts'
import { declareMode, type Mode } from '../tools/presentation.ts'
import type { Registry } from '../tools/registry.ts'
import { addMask, type Mask } from '../tools/restriction.ts'
import type { StoredMask, StoredScope } from './stored-scope.ts'

/** Whose change it is: what is not in `reach` does not exist for them; `mayConfigure` are masks, modes and their own scope. */
export interface Author {
  readonly reach: Scope
  readonly mayConfigure: boolean
}

/** What a scope is to be: what is absent is not declared. */
export interface WantedScope {
  presentAs?: Mode
  restrict?: readonly Mask[]
  ttlMs?: number
}

/** Throws `UNKNOWN_SCOPE` for what the author does not reach, as for what is not there. */
export function assertReached(author: Author, id: string, scope: Scope | undefined): asserts scope is Scope {
  if (scope === undefined || !scope.isWithin(author.reach)) {
    throw new RequestError('UNKNOWN_SCOPE', `There is no scope "${id}".`)
  }
}

/** Who may not configure makes and disposes scopes below their own (api.md §1). */
export function assertMayReplace({ reach, mayConfigure }: Author, scope: Scope): void {
  if (scope === reach && !mayConfigure) throw new RequestError('FORBIDDEN', 'This token may not change its own scope.')
}

/** Throws `RATE_LIMITED`, naming the setting whose value `count` would exceed. */
export function assertLimit(name: string, count: number, max: number): void {
  if (count <= max) return
  throw new RequestError('RATE_LIMITED', `The limit ${name} is reached.`, { details: { limit: name, value: max } })
}

/** Masks as wanted; one that stood there before keeps its id. */
export function withIds(before: readonly StoredMask[], wanted: readonly Mask[]): StoredMask[] {
  const left = [...before]
  return wanted.map((mask) => {
    const same = left.findIndex((other) => contentOf(other) === contentOf(mask))
    return same === -1 ? newMask(mask) : (left.splice(same, 1)[0] as StoredMask)
  })
}

export const newMask = ({ allow, deny }: Mask): StoredMask => ({
  id: randomBytes(8).toString('hex'),
  ...(allow === undefined ? {} : { allow: [...allow] }),
  ...(deny === undefined ? {} : { deny: [...deny] })
})

/** Whether two states say the same of what models see. */
export const isShownAlike = (a: StoredScope, b: StoredScope): boolean =>
  a.presentAs === b.presentAs &&
  a.restrict.length === b.restrict.length &&
  a.restrict.every(({ id }) => b.restrict.some((other) => other.id === id))

/** A scope outside the tree, to try a declaration on before there is the real one. */
export const trialScope = (id: string, parent: Scope): Scope => new Scope(id, parent)

/** Throws `INVALID_DEFINITION` for what the registry would refuse, as its message says; nothing is left behind or announced. */
export function tryOut(registry: Registry, scope: Scope, before: StoredScope | undefined, next: StoredScope): void {
  const known = scope.parent === undefined ? new Set<string>() : registry.knownNames(scope.parent)
  const old = new Set(before?.restrict.map(({ id }) => id))
  try {
    for (const mask of next.restrict) if (!old.has(mask.id)) addMask(scope, mask, known)()
    if (next.presentAs !== undefined && before?.presentAs === undefined) declareMode(scope, next.presentAs)()
  } catch (error) {
    throw new RequestError('INVALID_DEFINITION', (error as Error).message, { cause: error })
  }
}

const contentOf = ({ allow, deny }: Mask): string =>
  stringifyJson([allow === undefined ? null : [...allow], deny === undefined ? null : [...deny]])
