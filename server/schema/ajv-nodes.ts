import { isJsonObject, type JsonObject, type JsonValue } from '../json/lossless.ts'
import type { PathStep, Trail } from '../json/path.ts'

/** One subschema that is an object, its place, and what validation goes on to from it. */
export interface SchemaNode {
  readonly schema: JsonObject
  readonly trail: Trail | undefined
  /** Within a resource of its own: an `$id` above it changes what `#` means. */
  readonly isEmbedded: boolean
  readonly next: SchemaNode[]
  /** Subschemas that are `true` or `false`. */
  booleans: number
}

type Refuse = (trail: Trail | undefined, text: string) => never

const maxNodes = 2_000
const maxRefs = 64

// What these hold are schemas: a map of them, a list of them, or one. Everything else in a node is data, unless it is referred to.
const maps = ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas', 'dependencies']
const lists = ['allOf', 'anyOf', 'oneOf', 'prefixItems', 'items']
const singles = [
  ...['items', 'additionalItems', 'additionalProperties', 'not', 'contains', 'propertyNames', 'if', 'then', 'else'],
  ...['unevaluatedItems', 'unevaluatedProperties', 'contentSchema']
]

/**
 * Every subschema of a schema whose objects are all different, the root first, references resolved. Refuses too many of either, and
 * references that lead out of the schema or nowhere (reliability.md §1.6).
 */
export function collectNodes(root: JsonObject, refuse: Refuse): SchemaNode[] {
  const nodes = new Map<JsonObject, SchemaNode>()
  const anchors = new Map<string, JsonObject>()
  let booleans = 0
  let refs = 0

  const count = (): void => {
    if (nodes.size + booleans > maxNodes) refuse(undefined, `has more than ${maxNodes} subschemas`)
  }
  const enter = (schema: JsonObject, trail: Trail | undefined, isEmbedded: boolean): SchemaNode => {
    const id = ownText(schema, '$id')
    if (id?.startsWith('#') === true) anchors.set(id.slice(1), schema)
    for (const keyword of ['$anchor', '$dynamicAnchor']) {
      const anchor = ownText(schema, keyword)
      if (anchor !== undefined) anchors.set(anchor, schema)
    }
    const opensResource = trail !== undefined && id !== undefined && !id.startsWith('#')
    const node: SchemaNode = { schema, trail, isEmbedded: isEmbedded || opensResource, next: [], booleans: 0 }
    nodes.set(schema, node)
    count()
    return node
  }
  const collect = (top: SchemaNode): SchemaNode => {
    const open = [top]
    for (let node = open.pop(); node !== undefined; node = open.pop()) {
      for (const [trail, child, isApplied] of subschemas(node)) {
        if (typeof child === 'boolean') {
          node.booleans += 1
          booleans += 1
          count()
        } else if (isJsonObject(child)) {
          const known = nodes.get(child)
          const entered = known ?? enter(child, trail, node.isEmbedded)
          if (isApplied) node.next.push(entered)
          if (known === undefined) open.push(entered)
        }
      }
    }
    return top
  }

  collect(enter(root, undefined, false))
  // Nodes that only a reference makes schemas of join the map, and so this loop.
  for (const node of nodes.values()) {
    for (const keyword of ['$ref', '$dynamicRef']) {
      const ref = ownText(node.schema, keyword)
      if (ref === undefined) continue
      const trail = { parent: node.trail, step: keyword }
      refs += 1
      if (refs > maxRefs) refuse(trail, `is one reference more than the ${maxRefs} there may be`)
      if (!ref.startsWith('#')) refuse(trail, 'leads out of the schema: a reference begins with "#"')
      if (node.isEmbedded) refuse(trail, 'is below an "$id" of its own, where references are not supported')
      const target = resolve(root, ref.slice(1), anchors)
      if (typeof target === 'boolean') node.booleans += 1
      else if (!isJsonObject(target)) refuse(trail, 'does not lead to a schema')
      else node.next.push(nodes.get(target) ?? collect(enter(target, trail, false)))
    }
  }
  return [...nodes.values()]
}

/** How many nodes there are when references are written out, except where that would never end. May be infinite. */
export function expandedSize(nodes: readonly SchemaNode[]): number {
  const sizes = new Map<SchemaNode, number>()
  const entered = new Set<SchemaNode>()
  const open = nodes.slice(0, 1)
  for (let node = open.at(-1); node !== undefined; node = open.at(-1)) {
    if (sizes.has(node)) open.pop()
    else if (entered.has(node)) {
      // A node that is entered and has no size is above this one: a recursion, which ends with the value.
      sizes.set(
        node,
        node.next.reduce((sum, next) => sum + (sizes.get(next) ?? 1), 1 + node.booleans)
      )
      open.pop()
    } else {
      entered.add(node)
      open.push(...node.next.filter((next) => !entered.has(next)))
    }
  }
  return sizes.get(nodes[0]!)!
}

/** `isApplied`: validation goes there; to a definition it goes only by reference. */
function* subschemas({ schema, trail }: SchemaNode): Generator<[Trail, JsonValue | undefined, isApplied: boolean]> {
  const own = (keyword: string): JsonValue | undefined => (Object.hasOwn(schema, keyword) ? schema[keyword] : undefined)
  for (const keyword of singles) yield [{ parent: trail, step: keyword }, own(keyword), true]
  for (const keyword of maps) {
    const map = own(keyword)
    if (!isJsonObject(map)) continue
    const parent = { parent: trail, step: keyword }
    const isApplied = keyword !== '$defs' && keyword !== 'definitions'
    for (const name of Object.keys(map)) yield [{ parent, step: name }, map[name], isApplied]
  }
  for (const keyword of lists) {
    const list = own(keyword)
    if (!Array.isArray(list)) continue
    const parent = { parent: trail, step: keyword }
    for (const [index, item] of list.entries()) yield [{ parent, step: index }, item, true]
  }
}

/** What a fragment names: a JSON pointer or an anchor. Own members only: `#/constructor` names nothing. */
function resolve(root: JsonObject, fragment: string, anchors: ReadonlyMap<string, JsonObject>): JsonValue | undefined {
  if (fragment === '') return root
  if (!fragment.startsWith('/')) return anchors.get(fragment)
  let target: JsonValue | undefined = root
  for (const step of fragment.slice(1).split('/')) {
    const key = pointerStep(step)
    if (key === undefined || typeof target !== 'object' || target === null || !Object.hasOwn(target, key))
      return undefined
    target = (target as Record<PathStep, JsonValue>)[key]
  }
  return target
}

function pointerStep(escaped: string): string | undefined {
  try {
    return decodeURIComponent(escaped).replaceAll('~1', '/').replaceAll('~0', '~')
  } catch {
    return undefined
  }
}

function ownText(schema: JsonObject, keyword: string): string | undefined {
  const value = Object.hasOwn(schema, keyword) ? schema[keyword] : undefined
  return typeof value === 'string' ? value : undefined
}
