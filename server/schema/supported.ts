import { CodedError } from '../errors.ts'
import { isLosslessJson } from '../json/lossless.ts'
import type { Trail } from '../json/path.ts'
import { isDenseArray, isRecord } from '../json/plain.ts'
import type { JsonSchema } from './spec.ts'
import { isOfType, scalarTypes, type ScalarType } from './scalar-types.ts'
import { Violations } from './violations.ts'
import { runWalk, type Walk } from './walk.ts'

/** A schema or spec uses what is not supported (core.md §3.9). `violations` names each place and what is wrong there. */
export class JsonSchemaError extends CodedError {
  readonly violations: readonly string[]

  constructor(violations: readonly string[]) {
    super('UNSUPPORTED_SCHEMA', `The schema is not supported: ${violations.join('; ')}`)
    this.violations = violations
  }
}

/**
 * Holds a schema to the subset of JSON Schema that is enforced (core.md §3.1–3.11): what is outside it is refused rather
 * than accepted and ignored. With `objectRoot` the root must have type `object`. Throws `JsonSchemaError` with every
 * violation in walk order, their paths rooted at `schema`.
 */
export function assertSupportedSchema(
  schema: unknown,
  { objectRoot = false }: { objectRoot?: boolean } = {}
): asserts schema is JsonSchema {
  const found = new Violations()
  runWalk(checkNode(schema, undefined, { found, ancestors: new Set() }))
  if (objectRoot && isRecord(schema) && !(Object.hasOwn(schema, 'type') && schema['type'] === 'object')) {
    found.add(undefined, 'must have type "object" at its root')
  }
  if (found.count > 0) throw new JsonSchemaError(found.texts('schema'))
}

interface Context {
  readonly found: Violations
  readonly ancestors: Set<unknown>
}

const annotations = new Set(['description', 'title', 'default', 'examples'])
const constraints = ['properties', 'required', 'additionalProperties', 'items', 'enum', 'const'] as const
const known = new Set<string>(['type', 'oneOf', ...constraints, ...annotations])
const types = new Set<unknown>(['object', 'array', ...scalarTypes])

function* checkNode(node: unknown, trail: Trail | undefined, context: Context): Walk {
  const { found, ancestors } = context
  if (!isRecord(node)) return found.add(trail, 'is not a schema object')
  if (ancestors.has(node)) return found.add(trail, 'is circular')
  ancestors.add(node)
  checkKeywords(node, trail, found)
  const has = (keyword: string): boolean => Object.hasOwn(node, keyword)
  if (has('type') && has('oneOf')) found.add(trail, 'has both "type" and "oneOf"')
  else if (has('oneOf')) yield* checkOneOf(node, trail, context)
  else if (has('type')) yield* checkTyped(node, trail, context)
  else refuse(constraints, node, trail, found, 'needs a "type" beside it')
  ancestors.delete(node)
}

function checkKeywords(node: Record<string, unknown>, trail: Trail | undefined, found: Violations): void {
  for (const keyword of Object.keys(node)) {
    if (!known.has(keyword)) found.add(at(trail, keyword), 'is not a supported keyword')
    else if ((keyword === 'default' || keyword === 'examples') && !isLosslessJson(node[keyword])) {
      found.add(at(trail, keyword), 'must be lossless JSON')
    }
  }
  for (const keyword of ['description', 'title']) {
    if (Object.hasOwn(node, keyword) && typeof node[keyword] !== 'string') {
      found.add(at(trail, keyword), 'must be a string')
    }
  }
}

function* checkOneOf(node: Record<string, unknown>, trail: Trail | undefined, context: Context): Walk {
  const { oneOf } = node
  const here = at(trail, 'oneOf')
  if (!isDenseArray(oneOf)) context.found.add(here, 'must be a dense array of schemas')
  else {
    if (oneOf.length < 2) context.found.add(here, 'must have at least two branches')
    for (const [index, branch] of oneOf.entries()) yield checkNode(branch, at(here, index), context)
  }
  refuse(constraints, node, trail, context.found, 'may not stand beside "oneOf"')
}

function* checkTyped(node: Record<string, unknown>, trail: Trail | undefined, context: Context): Walk {
  const { found } = context
  const { type } = node
  if (Array.isArray(type)) return found.add(at(trail, 'type'), 'must be one type; for several use "oneOf"')
  if (!types.has(type)) return found.add(at(trail, 'type'), `must be one of ${[...types].join(', ')}`)
  refuse(misplaced(type as string), node, trail, found, `has no meaning for type "${type as string}"`)
  if (type === 'object') yield* checkObject(node, trail, context)
  else if (type === 'array') {
    if (Object.hasOwn(node, 'items')) yield checkNode(node['items'], at(trail, 'items'), context)
  } else checkLiterals(node, type as ScalarType, trail, found)
}

function misplaced(type: string): readonly string[] {
  if (type === 'object') return ['items', 'enum', 'const']
  const objectOnly = ['properties', 'required', 'additionalProperties']
  return type === 'array' ? [...objectOnly, 'enum', 'const'] : [...objectOnly, 'items']
}

function* checkObject(node: Record<string, unknown>, trail: Trail | undefined, context: Context): Walk {
  const { found } = context
  const properties = Object.hasOwn(node, 'properties') ? node['properties'] : {}
  if (!isRecord(properties)) found.add(at(trail, 'properties'), 'must be an object of schemas')
  else {
    const here = at(trail, 'properties')
    for (const name of Object.keys(properties)) yield checkNode(properties[name], at(here, name), context)
  }
  if (Object.hasOwn(node, 'required')) checkRequired(node['required'], properties, at(trail, 'required'), found)
  if (Object.hasOwn(node, 'additionalProperties') && typeof node['additionalProperties'] !== 'boolean') {
    found.add(at(trail, 'additionalProperties'), 'must be true or false')
  }
}

function checkRequired(required: unknown, properties: unknown, here: Trail, found: Violations): void {
  if (!isDenseArray(required)) return found.add(here, 'must be a dense array of strings')
  for (const [index, name] of required.entries()) {
    if (typeof name !== 'string') found.add(at(here, index), 'must be a string')
    else if (isRecord(properties) && !Object.hasOwn(properties, name)) {
      found.add(at(here, index), `names ${JSON.stringify(name)}, which "properties" does not have`)
    }
  }
}

function checkLiterals(
  node: Record<string, unknown>,
  type: ScalarType,
  trail: Trail | undefined,
  found: Violations
): void {
  const before = found.count
  const allowed = Object.hasOwn(node, 'enum') ? node['enum'] : undefined
  if (Object.hasOwn(node, 'enum')) {
    const here = at(trail, 'enum')
    if (!isDenseArray(allowed) || allowed.length === 0) found.add(here, 'must be a dense array of at least one value')
    else {
      for (const [index, value] of allowed.entries()) {
        if (!isOfType(type, value)) found.add(at(here, index), `must be of type "${type}"`)
      }
    }
  }
  if (!Object.hasOwn(node, 'const')) return
  if (!isOfType(type, node['const'])) found.add(at(trail, 'const'), `must be of type "${type}"`)
  else if (Array.isArray(allowed) && found.count === before && !allowed.includes(node['const'])) {
    found.add(at(trail, 'const'), 'must be one of the values of "enum"')
  }
}

function refuse(
  keywords: readonly string[],
  node: Record<string, unknown>,
  trail: Trail | undefined,
  found: Violations,
  text: string
): void {
  for (const keyword of keywords) if (Object.hasOwn(node, keyword)) found.add(at(trail, keyword), text)
}

function at(parent: Trail | undefined, step: string | number): Trail {
  return { parent, step }
}
