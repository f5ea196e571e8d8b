import { isJsonObject, type JsonObject, type JsonValue, snapshot } from '../json/lossless.ts'
import { stringifyJson } from '../json/serialize.ts'
import type { JsonSchema } from '../schema/spec.ts'

/** What of JSON Schema a provider takes. Everything else is told in descriptions, since one bad schema fails a whole request. */
export interface Dialect {
  takes(keyword: string): boolean
  /** Keywords refused at the root, though taken below it. */
  rootRefuses: readonly string[]
  /** References are written out, as far as they are finite. */
  inlinesRefs?: boolean
  /** Names of properties that the provider accepts. */
  propertyNames?: RegExp
  /** The schema objects of OpenAPI 3.0: one type, `nullable`, string enums, nothing beside `anyOf`. */
  isOpenApi?: boolean
}

/** Hears of each change: where it was made, and what. */
export type Note = (path: string, note: string) => void

interface Visit {
  node: JsonObject
  path: string
  /** The references that led here: one that comes again is recursive. */
  refs: readonly string[]
}

// What these hold are schemas: a map of them, a list of them, or one.
const maps = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'])
const listsOrSingles = new Set(
  'oneOf anyOf allOf prefixItems items additionalItems additionalProperties not contains propertyNames if then else'.split(
    ' '
  )
)
// These say nothing about values, so leaving them out loses nothing.
const identifiers = new Set(['$schema', '$id', '$comment', '$anchor'])
const openApiFormats = new Set(['enum', 'date-time', 'float', 'double', 'int32', 'int64'])

/** A schema whose references double at each level would grow without end (reliability.md §0.9). */
const maxInlined = 200
/** Longest text that one keyword adds to a description. */
const maxToldChars = 500

/** Gives a copy of the schema in the provider's dialect. Iterative; `default`, `examples`, `enum` and `const` are data. */
export function lowerSchema(schema: JsonSchema, dialect: Dialect, note: Note): JsonSchema {
  const root = snapshot(schema) as JsonObject
  const open: Visit[] = [{ node: root, path: 'parameters', refs: [] }]
  let inlined = 0
  for (let visit = open.pop(); visit !== undefined; visit = open.pop()) {
    const { node, path } = visit
    if (dialect.inlinesRefs === true && inlined < maxInlined && node !== root) {
      const target = inline(visit, schema)
      if (target !== undefined) {
        inlined += 1
        open.push(target)
        continue
      }
    }
    lowerNode(node, path, node === root, dialect, note)
    for (const child of childrenOf(node, path, dialect)) open.push({ ...child, refs: visit.refs })
  }
  return root
}

/** Writes a reference's target into the node; its own keywords win. Undefined when there is none, or it cannot be written out. */
function inline({ node, path, refs }: Visit, schema: JsonSchema): Visit | undefined {
  const ref = node.$ref
  if (typeof ref !== 'string' || refs.includes(ref)) return undefined
  const steps = pointerIn(ref)
  if (steps === undefined) return undefined
  let target: JsonValue | undefined = schema
  for (const key of steps) target = isJsonObject(target) && Object.hasOwn(target, key) ? target[key] : undefined
  if (!isJsonObject(target)) return undefined
  delete node.$ref
  for (const [key, value] of Object.entries(snapshot(target) as JsonObject)) {
    // Defined, not assigned: a key `__proto__` must stay data.
    if (Object.hasOwn(node, key)) continue
    Object.defineProperty(node, key, { value, writable: true, enumerable: true, configurable: true })
  }
  return { node, path, refs: [...refs, ref] }
}

/** The steps of a pointer into the same schema, which is a URI's fragment; undefined for an anchor and for what is elsewhere. */
function pointerIn(ref: string): string[] | undefined {
  if (ref !== '#' && !ref.startsWith('#/')) return undefined
  try {
    const steps = decodeURIComponent(ref).split('/').slice(1)
    return steps.map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
  } catch {
    return undefined
  }
}

function lowerNode(node: JsonObject, path: string, isRoot: boolean, dialect: Dialect, note: Note): void {
  const told: string[] = []
  const tell = (keyword: string): void => {
    told.push(`${keyword}: ${clippedJson(node[keyword] as JsonValue)}`)
    delete node[keyword]
    note(path, `${keyword} is told in the description`)
  }

  if (isRoot) for (const keyword of dialect.rootRefuses) if (Object.hasOwn(node, keyword)) tell(keyword)
  if (!dialect.takes('oneOf') && Object.hasOwn(node, 'oneOf') && !Object.hasOwn(node, 'anyOf')) {
    node.anyOf = node.oneOf as JsonValue
    delete node.oneOf
    note(path, 'oneOf is sent as anyOf')
  }
  if (Array.isArray(node.items)) {
    toPrefixItems(node)
    note(path, 'a list under items is sent as prefixItems')
  }
  if (dialect.isOpenApi === true) toOpenApi(node, tell)
  for (const keyword of Object.keys(node)) {
    if (dialect.takes(keyword)) continue
    if (identifiers.has(keyword) || (keyword === 'additionalProperties' && node[keyword] === true)) delete node[keyword]
    else if (dialect.inlinesRefs === true && (keyword === '$defs' || keyword === 'definitions')) delete node[keyword]
    else tell(keyword)
  }
  if (dialect.propertyNames !== undefined) tellProperties(node, dialect.propertyNames, path, told, note)
  if (node.type === 'array' && !Object.hasOwn(node, 'items') && !Object.hasOwn(node, 'prefixItems')) node.items = {}
  if (node.type === 'object' && isRoot && !Object.hasOwn(node, 'properties')) node.properties = {}
  if (told.length > 0) describe(node, `(${told.join('; ')})`)
  if (dialect.isOpenApi === true) describeFirstBranch(node)
}

/** Says in 2020-12's words what draft-07 says of a tuple: providers know no other, and refuse a list under `items`. */
function toPrefixItems(node: JsonObject): void {
  node.prefixItems = node.items as JsonValue
  delete node.items
  if (!Object.hasOwn(node, 'additionalItems')) return
  node.items = node.additionalItems as JsonValue
  delete node.additionalItems
}

/** Says in OpenAPI's words what can be said in them; the rest is told. */
function toOpenApi(node: JsonObject, tell: (keyword: string) => void): void {
  if (Array.isArray(node.type)) {
    const types = node.type.filter((type) => type !== 'null')
    if (types.length < node.type.length && types.length === 1) node.nullable = true
    if (types.length === 1) node.type = types[0] as JsonValue
    else if (Object.hasOwn(node, 'anyOf')) tell('type')
    else {
      node.anyOf = node.type.map((type) => ({ type }))
      delete node.type
    }
  }
  if (typeof node.const === 'string' && !Object.hasOwn(node, 'enum')) {
    node.enum = [node.const]
    delete node.const
  }
  if (Array.isArray(node.enum)) {
    const isOfStrings = node.enum.every((entry) => typeof entry === 'string') && (node.type ?? 'string') === 'string'
    if (isOfStrings && !Object.hasOwn(node, 'anyOf')) node.type = 'string'
    else tell('enum')
  }
  if (Object.hasOwn(node, 'format') && !openApiFormats.has(node.format as string)) tell('format')
  if (Array.isArray(node.required)) {
    const declared = isJsonObject(node.properties) ? node.properties : {}
    const kept = node.required.filter((name) => typeof name === 'string' && Object.hasOwn(declared, name))
    if (kept.length < node.required.length) {
      tell('required')
      if (kept.length > 0) node.required = kept
    }
  }
  if (!Object.hasOwn(node, 'anyOf')) return
  // Beside `anyOf` nothing else may stand: what says more of the value stays.
  if (Object.hasOwn(node, 'type') || Object.hasOwn(node, 'properties')) tell('anyOf')
  else for (const keyword of Object.keys(node)) if (keyword !== 'anyOf' && keyword !== 'description') tell(keyword)
}

/** Properties whose names the provider refuses can still be sent: the object stays open, and says so. */
function tellProperties(node: JsonObject, names: RegExp, path: string, told: string[], note: Note): void {
  const { properties, required } = node
  if (!isJsonObject(properties)) return
  for (const name of Object.keys(properties)) {
    if (names.test(name)) continue
    const isRequired = Array.isArray(required) && required.includes(name)
    told.push(
      `${isRequired ? 'required ' : ''}property ${JSON.stringify(name)}: ${clippedJson(properties[name] as JsonValue)}`
    )
    delete properties[name]
    if (isRequired) node.required = (node.required as JsonValue[]).filter((other) => other !== name)
    if (node.additionalProperties === false) delete node.additionalProperties
    note(path, `property ${JSON.stringify(name)} is told in the description`)
  }
}

function clippedJson(value: JsonValue): string {
  const json = stringifyJson(value)
  return json.length > maxToldChars ? `${json.slice(0, maxToldChars)}…` : json
}

function describe(node: JsonObject, text: string): void {
  node.description =
    typeof node.description === 'string' && node.description !== '' ? `${node.description} ${text}` : text
}

function describeFirstBranch(node: JsonObject): void {
  const { anyOf, description } = node
  if (!Array.isArray(anyOf) || typeof description !== 'string') return
  const [first] = anyOf
  if (!isJsonObject(first)) return
  delete node.description
  first.description = typeof first.description === 'string' ? `${description} ${first.description}` : description
}

function childrenOf(node: JsonObject, path: string, { isOpenApi }: Dialect): { node: JsonObject; path: string }[] {
  const children: { node: JsonObject; path: string }[] = []
  const visit = (holder: JsonObject | JsonValue[], key: string | number, childPath: string): void => {
    const slot = holder as Record<string | number, JsonValue>
    // A schema may be `true` or `false`, which OpenAPI 3.0 has no word for.
    const given = slot[key]
    if (isOpenApi === true && typeof given === 'boolean') slot[key] = given ? {} : { description: '(never valid)' }
    const child = slot[key]
    if (isJsonObject(child)) children.push({ node: child, path: childPath })
  }
  for (const [keyword, value] of Object.entries(node)) {
    if (maps.has(keyword) && isJsonObject(value)) {
      for (const key of Object.keys(value)) visit(value, key, `${path}.${keyword}.${key}`)
    } else if (listsOrSingles.has(keyword)) {
      if (Array.isArray(value)) for (const index of value.keys()) visit(value, index, `${path}.${keyword}[${index}]`)
      else visit(node, keyword, `${path}.${keyword}`)
    }
  }
  return children
}
