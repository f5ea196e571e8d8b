import { ownValue } from '../json/plain.ts'
import { isJsonObject, type JsonObject, type JsonValue } from '../json/lossless.ts'
import type { Definition, Shape } from './sdk-shape.ts'

/** The local references of one schema. */
export interface References {
  /** What a `$ref` leads to; undefined if it leads nowhere, or out of the schema. */
  readonly target: (ref: string) => JsonValue | undefined
  /** The definition of a schema that some `$ref` leads to. */
  readonly definitionOf: (schema: JsonObject) => Definition | undefined
}

/** Finds what the `$ref`s of a schema lead to: pointers (`#/$defs/a`), the root (`#`) and anchors (`#a`). */
export function findReferences(root: JsonValue): References {
  const refs = new Set<string>()
  const anchors = new Map<string, JsonObject>()
  const pending: JsonValue[] = [root]
  for (let value = pending.pop(); value !== undefined; value = pending.pop()) {
    if (typeof value !== 'object' || value === null) continue
    if (isJsonObject(value)) {
      const ref = ownValue(value, '$ref')
      if (typeof ref === 'string') refs.add(ref)
      for (const anchor of anchorsOf(value)) if (!anchors.has(anchor)) anchors.set(anchor, value)
    }
    for (const item of Array.isArray(value) ? value : Object.values(value)) pending.push(item)
  }
  const targets = new Map<string, JsonValue>()
  const definitions = new Map<JsonObject, Definition>()
  for (const ref of refs) {
    const target = ref.startsWith('#') ? (anchors.get(ref) ?? follow(root, ref)) : undefined
    if (target === undefined) continue
    targets.set(ref, target)
    if (isJsonObject(target) && !definitions.has(target)) {
      const hint = target === root ? '' : ref.slice(Math.max(ref.lastIndexOf('/'), 0) + 1)
      definitions.set(target, { hint, shape: { kind: 'unknown' }, uses: 0, direct: [] })
    }
  }
  return { target: (ref) => targets.get(ref), definitionOf: (schema) => definitions.get(schema) }
}

function anchorsOf(schema: JsonObject): string[] {
  const found: string[] = []
  const anchor = ownValue(schema, '$anchor')
  if (typeof anchor === 'string') found.push(`#${anchor}`)
  const id = ownValue(schema, '$id')
  if (typeof id === 'string' && /^#[^/]/.test(id)) found.push(id)
  return found
}

function follow(root: JsonValue, ref: string): JsonValue | undefined {
  if (ref === '#' || ref === '#/') return root
  if (!ref.startsWith('#/')) return undefined
  let at: JsonValue | undefined = root
  for (const written of ref.slice(2).split('/')) {
    if (typeof at !== 'object' || at === null) return undefined
    const step = decode(written)
    if (step === undefined || (Array.isArray(at) && !/^(0|[1-9]\d*)$/.test(step))) return undefined
    at = ownValue(at, step) as JsonValue | undefined
  }
  return at
}

function decode(step: string): string | undefined {
  try {
    return decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~')
  } catch {
    return undefined
  }
}

/**
 * Empties each reference that leads back to its own definition without an array or object in between: it says nothing, and no
 * language could name it (`type A = A | string`).
 */
export function breakDirectCycles(definitions: Iterable<Definition>): void {
  const state = new Map<Definition, 'open' | 'done'>()
  for (const start of definitions) {
    if (state.has(start)) continue
    state.set(start, 'open')
    const path = [{ definition: start, next: 0 }]
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      const reference: (Shape & { kind: 'reference' }) | undefined = top.definition.direct[top.next]
      top.next += 1
      if (reference === undefined) {
        state.set(top.definition, 'done')
        path.pop()
      } else if (reference.definition !== undefined) {
        const seen = state.get(reference.definition)
        if (seen === 'open') reference.definition = undefined
        else if (seen === undefined) {
          state.set(reference.definition, 'open')
          path.push({ definition: reference.definition, next: 0 })
        }
      }
    }
  }
}
