import type { Scope } from '../scopes/scope.ts'
import { slotKey } from '../scopes/slots.ts'
import { transportName } from './reserved-names.js'

/** A filter over the tools that a scope inherits (core.md §7.5). At least one of the two is given. */
export interface Mask {
  allow?: readonly string[]
  deny?: readonly string[]
}

interface Restriction {
  readonly allow: ReadonlySet<string> | undefined
  readonly deny: ReadonlySet<string> | undefined
}

const restrictions = slotKey<Restriction>('restrictions')

/**
 * Adds a mask to a scope; throws a plain `Error` when it is misused, in the order of core.md §7.5. `known` are the names the
 * scope inherits, hidden ones included; without it any name goes: a stored mask comes back as it stands (api.md §3).
 */
export function addMask(scope: Scope, mask: Mask, known: ReadonlySet<string> | undefined): () => boolean {
  if (scope.parent === undefined) throw new Error('restrict needs a scope: the global tools are masked per scope')
  if (mask.allow === undefined && mask.deny === undefined)
    throw new Error('restrict needs an allow list or a deny list')
  const restriction = { allow: nameSet('allow', mask.allow), deny: nameSet('deny', mask.deny) }
  const named = [...(restriction.allow ?? []), ...(restriction.deny ?? [])]
  if (named.includes(transportName)) {
    throw new Error(`"${transportName}" cannot be restricted: restrict the tools that its programs call`)
  }
  if (known !== undefined) refuseUnknown(scope, new Set(named), known)
  return scope.slot(restrictions).add(restriction)
}

/** Whether every layer of the chain lets an inherited name through (core.md §7.3, step 3). */
export function isAdmitted(chain: readonly Scope[], name: string): boolean {
  for (const layer of chain) {
    for (const { allow, deny } of layer.slot(restrictions).values()) {
      if (allow?.has(name) === false || deny?.has(name) === true) return false
    }
  }
  return true
}

/** Copies the names: what the caller does to its array later has no effect (core.md §7.5). */
function nameSet(list: string, names: readonly string[] | undefined): ReadonlySet<string> | undefined {
  if (names === undefined) return undefined
  if (!Array.isArray(names) || names.some((name) => typeof name !== 'string')) {
    throw new Error(`restrict needs its ${list} list to be an array of tool names`)
  }
  return new Set(names)
}

function refuseUnknown(scope: Scope, named: ReadonlySet<string>, known: ReadonlySet<string>): void {
  const unknown = [...named].filter((name) => !known.has(name))
  if (unknown.length === 0) return
  const knownText = known.size === 0 ? '(none)' : [...known].sort().join(', ')
  throw new Error(
    `scope "${scope.id}" inherits no tool named ${unknown.map((name) => JSON.stringify(name)).join(', ')}; it inherits: ${knownText}`
  )
}
