import { type JsonObject, type JsonValue, snapshot } from '../json/lossless.ts'
import { formatPath, type PathStep, stepsOf, type Trail } from '../json/path.ts'
import { stringifyJson } from '../json/serialize.ts'
import { adaptToAjv } from './ajv-adapt.ts'
import { collectNodes, expandedSize, type SchemaNode } from './ajv-nodes.ts'
import { JsonSchemaError } from './supported.ts'

/** The versions of JSON Schema that a wire tool may be written in (api.md §3). */
export type Dialect = '2020-12' | 'draft-07'

/** A schema that may be compiled. */
interface CheckedSchema {
  readonly dialect: Dialect
  /** The schema as given, copied. */
  readonly schema: JsonObject
  /** JSON text of what ajv is to compile in its place. */
  readonly text: string
  /** Each pattern in it and where it stands, for the linear engine to judge. */
  readonly patterns: readonly { readonly steps: readonly PathStep[]; readonly pattern: string }[]
}

const maxBytes = 64 * 1024
/** Levels of objects and arrays. ajv and its traversal are recursive. */
const maxDepth = 64
/** What validation would take with every reference written out. Doubled 22 times over it took 11.6 s for one value. */
const maxExpanded = 10_000
/** Comparing 20,000 objects with each other took 12.9 s. */
const maxUnique = 1_000

/**
 * Holds a schema from outside to the limits of reliability.md §1.6 before ajv sees it; itself iterative. Throws `JsonSchemaError`
 * naming one place, its path beginning with `root`.
 */
export function checkWireSchema(given: unknown, root: string): CheckedSchema {
  const refuse = (trail: Trail | undefined, text: string): never => {
    throw new JsonSchemaError([`"${formatPath(root, stepsOf(trail))}" ${text}`])
  }
  const schema = losslessCopy(given, refuse)
  if (!isObject(schema)) return refuse(undefined, 'must be an object')
  if (Buffer.byteLength(stringifyJson(schema)) > maxBytes) refuse(undefined, `is larger than ${maxBytes} bytes`)
  if (isDeeperThan(schema, maxDepth)) refuse(undefined, `nests deeper than ${maxDepth} levels`)

  const dialect = dialectOf(schema) ?? refuse(at(undefined, '$schema'), 'must name draft 2020-12 or draft-07')
  const copy = snapshot(schema) as JsonObject
  const nodes = collectNodes(copy, refuse)
  for (const { schema, trail } of nodes) {
    const { uniqueItems, maxItems } = schema
    if (uniqueItems === true && !(typeof maxItems === 'number' && maxItems <= maxUnique)) {
      refuse(at(trail, 'uniqueItems'), `needs a "maxItems" of at most ${maxUnique} beside it`)
    }
  }
  if (expandedSize(nodes) > maxExpanded) {
    refuse(undefined, `has more than ${maxExpanded} nodes once its references are written out`)
  }
  const patterns = nodes.flatMap((node) => patternsOf(node))
  for (const { schema, trail } of nodes) adaptToAjv(schema, (step, text) => refuse(at(trail, step), text))
  return { dialect, schema, text: stringifyJson(copy), patterns }
}

function losslessCopy(given: unknown, refuse: (trail: undefined, text: string) => never): JsonValue {
  try {
    return snapshot(given)
  } catch {
    return refuse(undefined, 'must be lossless JSON')
  }
}

function isDeeperThan(value: JsonValue, limit: number): boolean {
  let level: JsonValue[] = [value]
  for (let depth = 0; depth < limit; depth += 1) {
    level = level.flatMap((item) => (isContainer(item) ? Object.values(item) : [])).filter(isContainer)
    if (level.length === 0) return false
  }
  return true
}

function dialectOf(schema: JsonObject): Dialect | undefined {
  if (!Object.hasOwn(schema, '$schema')) return '2020-12'
  const named = schema['$schema']
  if (typeof named !== 'string') return undefined
  const match = /^https?:\/\/json-schema\.org\/(draft\/2020-12|draft-07)\/schema#?$/.exec(named)
  if (match === null) return undefined
  return match[1] === 'draft-07' ? 'draft-07' : '2020-12'
}

function patternsOf({ schema, trail }: SchemaNode): CheckedSchema['patterns'] {
  const own =
    typeof schema['pattern'] === 'string' ? [{ steps: [...stepsOf(trail), 'pattern'], pattern: schema['pattern'] }] : []
  const names = isObject(schema['patternProperties']) ? Object.keys(schema['patternProperties']) : []
  return [...own, ...names.map((pattern) => ({ steps: [...stepsOf(trail), 'patternProperties', pattern], pattern }))]
}

const at = (parent: Trail | undefined, step: PathStep): Trail => ({ parent, step })
const isContainer = (value: JsonValue): value is JsonValue[] | JsonObject => typeof value === 'object' && value !== null
const isObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
