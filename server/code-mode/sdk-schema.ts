import { ownValue } from '../json/plain.ts'
import { isJsonObject, type JsonObject, type JsonValue } from '../json/lossless.ts'
import { breakDirectCycles, findReferences } from './sdk-references.ts'
import { rulesOf } from './sdk-rules.ts'
import type { Definition, LiteralValue, ScalarType, Shape } from './sdk-shape.ts'

/** Queues the shape of a part; `direct` says that part and whole are the same value. */
type ReadPart = (schema: JsonValue, put: (shape: Shape) => void, direct?: 'direct') => void

/**
 * Reads the shape of a JSON Schema of any generator (draft-07 or 2020-12) as far as it can be said: the shape may admit more than the
 * schema, and what cannot be said is `unknown` in its place (code-mode.md §4.1). Keywords that only make sense for objects or
 * arrays are taken as the type that their author left out. Iterative, and linear in the size of the schema: a part that several
 * places share is read once.
 */
export function readSchema(root: JsonValue): Shape {
  const references = findReferences(root)
  const used = new Set<Definition>()
  let result: Shape = { kind: 'unknown' }
  const pending: {
    schema: JsonValue
    put: (shape: Shape) => void
    holder: Definition | undefined
    direct: boolean
    isBody: boolean
  }[] = []
  pending.push({ schema: root, put: (shape) => (result = shape), holder: undefined, direct: true, isBody: false })
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const { schema, put, holder, direct, isBody } = next
    const definition = isJsonObject(schema) && !isBody ? references.definitionOf(schema) : undefined
    if (definition === undefined) {
      const readPart: ReadPart = (part, putPart, same) =>
        pending.push({ schema: part, put: putPart, holder, direct: direct && same === 'direct', isBody: false })
      put(readNode(schema, references.target, readPart))
      continue
    }
    const reference: Shape & { kind: 'reference' } = { kind: 'reference', definition }
    put(reference)
    definition.uses += 1
    if (direct) holder?.direct.push(reference)
    if (used.has(definition)) continue
    used.add(definition)
    pending.push({ schema, put: (shape) => (definition.shape = shape), holder: definition, direct: true, isBody: true })
  }
  breakDirectCycles(used)
  return result
}

function readNode(schema: JsonValue, target: (ref: string) => JsonValue | undefined, readPart: ReadPart): Shape {
  if (schema === true) return { kind: 'json' }
  if (schema === false) return { kind: 'never' }
  if (!isJsonObject(schema)) return { kind: 'unknown' }
  const parts: Shape[] = []
  const add = (part: JsonValue) => {
    const index = parts.push({ kind: 'unknown' }) - 1
    readPart(part, (shape) => (parts[index] = shape), 'direct')
  }
  const ref = ownValue(schema, '$ref')
  if (ref !== undefined) {
    const found = typeof ref === 'string' ? target(ref) : undefined
    if (found === undefined) parts.push({ kind: 'unknown' })
    else add(found)
  }
  parts.push(...readLiterals(schema, readPart), ...readTypes(schema, readPart))
  const all = ownValue(schema, 'allOf') as JsonValue | undefined
  if (Array.isArray(all)) all.forEach(add)
  for (const keyword of ['anyOf', 'oneOf']) {
    const branches = ownValue(schema, keyword) as JsonValue | undefined
    if (Array.isArray(branches) && branches.length > 0) parts.push(readUnion(branches, readPart))
    else if (branches !== undefined) parts.push({ kind: 'unknown' })
  }
  const shape: Shape =
    parts.length === 0
      ? { kind: 'json' }
      : parts.length === 1 && ref === undefined && !Array.isArray(all)
        ? parts[0]!
        : { kind: 'intersection', parts }
  const description = ownValue(schema, 'description')
  if (typeof description === 'string') shape.description = description
  shape.rules = rulesOf(schema)
  return shape
}

function readUnion(branches: JsonValue[], readPart: ReadPart): Shape {
  const union: Shape & { kind: 'union' } = { kind: 'union', branches: branches.map(() => ({ kind: 'unknown' })) }
  branches.forEach((branch, index) => readPart(branch, (shape) => (union.branches[index] = shape), 'direct'))
  return union
}

/** `const` and `enum`: scalars as they are, containers as the closed shape that only they have. */
function readLiterals(schema: JsonObject, readPart: ReadPart): Shape[] {
  const all = Object.hasOwn(schema, 'const') ? [schema['const']!] : ownValue(schema, 'enum')
  if (all === undefined) return []
  if (!Array.isArray(all) || all.length === 0) return [{ kind: 'unknown' }]
  const types = declaredTypes(schema)
  const values = (all as JsonValue[]).filter(
    (value) => types === undefined || types.some((type) => isOfType(value, type))
  )
  if (values.length === 0) return [{ kind: 'never' }]
  const literals = values.filter((value): value is LiteralValue => typeof value !== 'object' || value === null)
  const branches: Shape[] = literals.length === 0 ? [] : [{ kind: 'literals', values: literals }]
  for (const value of values) {
    if (typeof value !== 'object' || value === null) continue
    const index = branches.push({ kind: 'unknown' }) - 1
    readPart(schemaOfOne(value), (shape) => (branches[index] = shape))
  }
  return [branches.length === 1 && literals.length > 0 ? branches[0]! : { kind: 'union', branches }]
}

function schemaOfOne(value: JsonValue[] | JsonObject): JsonObject {
  if (Array.isArray(value))
    return { prefixItems: value.map((item) => ({ const: item })), items: false, minItems: value.length }
  const properties = Object.fromEntries(Object.entries(value).map(([name, member]) => [name, { const: member }]))
  return { properties, required: Object.keys(value), additionalProperties: false }
}

const types = ['string', 'number', 'integer', 'boolean', 'null', 'array', 'object'] as const
type TypeName = (typeof types)[number]

/** The types that a schema declares; undefined where it declares none, or something else. */
function declaredTypes(schema: JsonObject): readonly TypeName[] | undefined {
  const declared = ownValue(schema, 'type')
  if (declared === undefined) return undefined
  const list = [...new Set<unknown>(Array.isArray(declared) ? declared : [declared])]
  if (ownValue(schema, 'nullable') === true && !list.includes('null')) list.push('null')
  const known = list.filter((type): type is TypeName => types.includes(type as TypeName))
  return known.length === list.length && known.length > 0 ? known : undefined
}

function isOfType(value: JsonValue, type: TypeName): boolean {
  if (type === 'integer') return Number.isInteger(value)
  if (type === 'array') return Array.isArray(value)
  if (type === 'object') return isJsonObject(value)
  return value === null ? type === 'null' : typeof value === type
}

function readTypes(schema: JsonObject, readPart: ReadPart): Shape[] {
  if (Object.hasOwn(schema, 'const') || Object.hasOwn(schema, 'enum')) return []
  const declared = declaredTypes(schema)
  if (declared === undefined && Object.hasOwn(schema, 'type')) return [{ kind: 'unknown' }]
  const found = declared ?? impliedTypes(schema)
  const branches = found.map((type): Shape => {
    if (type === 'array') return readArray(schema, readPart)
    if (type === 'object') return readObject(schema, readPart)
    return { kind: 'scalar', type: type satisfies ScalarType }
  })
  return branches.length > 1 ? [{ kind: 'union', branches }] : branches
}

// Many generators leave `type` out beside the keywords that only make sense for one.
function impliedTypes(schema: JsonObject): TypeName[] {
  const has = (...keywords: string[]) => keywords.some((keyword) => Object.hasOwn(schema, keyword))
  const implied: TypeName[] = []
  if (has('properties', 'required', 'additionalProperties', 'patternProperties')) implied.push('object')
  if (has('items', 'prefixItems')) implied.push('array')
  return implied
}

function readArray(schema: JsonObject, readPart: ReadPart): Shape {
  const items = ownValue(schema, 'items') as JsonValue | undefined
  const prefix =
    (ownValue(schema, 'prefixItems') as JsonValue | undefined) ?? (Array.isArray(items) ? items : undefined)
  const after = Array.isArray(items) ? (ownValue(schema, 'additionalItems') as JsonValue | undefined) : items
  if (prefix === undefined && after !== false) {
    const array: Shape & { kind: 'array' } = { kind: 'array', items: undefined }
    if (after !== undefined && after !== true) readPart(after, (shape) => (array.items = shape))
    return array
  }
  if (prefix !== undefined && !Array.isArray(prefix)) return { kind: 'unknown' }
  const first = prefix ?? []
  const least = ownValue(schema, 'minItems')
  const most = ownValue(schema, 'maxItems')
  const tuple: Shape & { kind: 'tuple' } = {
    kind: 'tuple',
    items: first.map(() => ({ kind: 'unknown' })),
    required: typeof least === 'number' ? Math.max(0, Math.min(Math.ceil(least), first.length)) : 0,
    rest: { kind: 'json' }
  }
  first.forEach((item, index) => readPart(item, (shape) => (tuple.items[index] = shape)))
  if (after === false || (typeof most === 'number' && most <= first.length)) tuple.rest = undefined
  else if (after !== undefined && after !== true) readPart(after, (shape) => (tuple.rest = shape))
  return tuple
}

function readObject(schema: JsonObject, readPart: ReadPart): Shape {
  const properties = ownValue(schema, 'properties') as JsonValue | undefined
  const listed = ownValue(schema, 'required') as JsonValue | undefined
  if (properties !== undefined && !isJsonObject(properties)) return { kind: 'unknown' }
  const required = new Set(Array.isArray(listed) ? listed.filter((name) => typeof name === 'string') : [])
  const object: Shape & { kind: 'object' } = { kind: 'object', fields: [], rest: 'any' }
  for (const [name, property] of Object.entries(properties ?? {})) {
    const field = { name, required: required.delete(name), shape: { kind: 'unknown' } as Shape }
    object.fields.push(field)
    readPart(property, (shape) => (field.shape = shape))
  }
  for (const name of required) object.fields.push({ name, required: true, shape: { kind: 'json' } })
  const further = ownValue(schema, 'additionalProperties') as JsonValue | undefined
  const patterns = ownValue(schema, 'patternProperties') as JsonValue | undefined
  if (isJsonObject(patterns) && Object.keys(patterns).length > 0) return object
  if (further === false) object.rest = 'none'
  else if (isJsonObject(further) && object.fields.length === 0) readPart(further, (shape) => (object.rest = shape))
  return object
}
