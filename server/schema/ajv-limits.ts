import { isJsonObject, type JsonObject, type JsonValue, snapshot } from '../json/lossless.ts'
import { formatPath, type PathStep, stepsOf, type Trail } from '../json/path.ts'
import { stringifyJson } from '../json/serialize.ts'
import { adaptToAjv } from './ajv-adapt.ts'
import type { Dialect, Program } from './ajv-job.ts'
import { collectNodes, expandedSize, type SchemaNode } from './ajv-nodes.ts'
import { JsonSchemaError } from './supported.ts'

const maxBytes = 64 * 1024
/** Levels of objects and arrays. ajv and its traversal are recursive. */
const maxDepth = 64
/** What validation would take with every reference written out. Doubled 22 times over it took 11.6 s for one value. */
const maxExpanded = 10_000
/** Comparing 20,000 objects with each other took 12.9 s. */
const maxUnique = 1_000

/**
 * Holds a schema from outside to the limits of reliability.md §1.6 before ajv sees it; itself iterative. Throws `JsonSchemaError`
 * naming one place, its path beginning with `root`. `schema` is a copy of what was given.
 */
export function checkWireSchema(given: unknown, root: string): { schema: JsonObject; program: Program } {
  const refuse = (trail: Trail | undefined, text: string): never => {
    throw new JsonSchemaError([`"${formatPath(root, stepsOf(trail))}" ${text}`])
  }
  const schema = losslessCopy(given, refuse)
  if (!isJsonObject(schema)) return refuse(undefined, 'must be an object')
  const text = stringifyJson(schema)
  if (Buffer.byteLength(text) > maxBytes) refuse(undefined, `is larger than ${maxBytes} bytes`)
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
  return { schema, program: { dialect, given: text, text: stringifyJson(copy), patterns } }
}

function losslessCopy(given: unknown, refuse: (trail: undefined, text: string) => never): JsonValue {
  try {
    return snapshot(given)
  } catch {
    return refuse(undefined, 'must be lossless JSON')
  }
}

function isDeeperThan(value: JsonObject, limit: number): boolean {
  let level: (JsonValue[] | JsonObject)[] = [value]
  for (let depth = 0; depth < limit; depth += 1) {
    level = level.flatMap((item): JsonValue[] => Object.values(item)).filter(isContainer)
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

function patternsOf({ schema, trail }: SchemaNode): Program['patterns'] {
  const own =
    typeof schema['pattern'] === 'string' ? [{ steps: [...stepsOf(trail), 'pattern'], pattern: schema['pattern'] }] : []
  const names = isJsonObject(schema['patternProperties']) ? Object.keys(schema['patternProperties']) : []
  return [...own, ...names.map((pattern) => ({ steps: [...stepsOf(trail), 'patternProperties', pattern], pattern }))]
}

const at = (parent: Trail | undefined, step: PathStep): Trail => ({ parent, step })
const isContainer = (value: JsonValue): value is JsonValue[] | JsonObject => typeof value === 'object' && value !== null
