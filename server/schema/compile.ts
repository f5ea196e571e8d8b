import { snapshot } from '../json/lossless.ts'
import { formatPath, stepsOf, type Trail } from '../json/path.ts'
import { isDenseArray, isRecord, setOwn } from '../json/plain.ts'
import type { JsonSchema, ParameterMap, ValueSpec } from './spec.ts'
import { assertSupportedSchema, JsonSchemaError } from './supported.ts'
import { runWalk, type Walk } from './walk.ts'

/**
 * Compiles a parameter map to the schema of an open object (core.md §4.5). Throws `JsonSchemaError`: one violation, its path
 * rooted at `parameters`, if the spec is malformed, or every violation of core.md §3, rooted at `schema`.
 */
export function compileParameters(spec: ParameterMap): JsonSchema {
  const schema: Draft = { type: 'object', properties: {} }
  const compilation: Compilation = { root: 'parameters', ancestors: new Set() }
  runWalk(compileProperties(spec, undefined, schema, compilation))
  assertSupportedSchema(schema)
  return schema
}

/** Compiles the spec of one value, such as a tool's output (core.md §4). Throws like `compileParameters`, rooted at `schema`. */
export function compileValue(spec: ValueSpec): JsonSchema {
  const schema: Draft = {}
  runWalk(compileNode(spec, undefined, false, schema, { root: 'schema', ancestors: new Set() }))
  assertSupportedSchema(schema)
  return schema
}

/** A schema being built; what the author put into it is unchecked until `assertSupportedSchema`. */
type Draft = Record<string, unknown>

interface Compilation {
  readonly root: 'parameters' | 'schema'
  readonly ancestors: Set<unknown>
}

const annotations = ['description', 'title', 'default', 'examples']
const scalar = new Set([...annotations, 'type', 'enum', 'const'])
const keysOfKind: ReadonlyMap<unknown, ReadonlySet<string>> = new Map([
  ['string', scalar],
  ['number', scalar],
  ['integer', scalar],
  ['boolean', scalar],
  ['null', scalar],
  ['array', new Set([...annotations, 'type', 'items'])],
  ['object', new Set([...annotations, 'type', 'properties', 'additionalProperties'])],
  ['json', new Set([...annotations, 'type'])]
])
const keysOfOneOf: ReadonlySet<string> = new Set([...annotations, 'oneOf'])

function* compileNode(
  spec: unknown,
  trail: Trail | undefined,
  isMember: boolean,
  schema: Draft,
  compilation: Compilation
): Walk {
  const node = read(spec, trail, compilation)
  checkKeys(node, trail, isMember, compilation)
  for (const [key, value] of node) {
    const here = { parent: trail, step: key }
    switch (key) {
      case 'required':
        break
      case 'type':
        if (value !== 'json') schema['type'] = value
        break
      case 'items':
        yield compileNode(value, here, false, (schema['items'] = {}), compilation)
        break
      case 'oneOf': {
        const branches = dense(value, here, compilation)
        const drafts: Draft[] = branches.map(() => ({}))
        schema['oneOf'] = drafts
        for (const [index, branch] of branches.entries()) {
          yield compileNode(branch, { parent: here, step: index }, false, drafts[index]!, compilation)
        }
        break
      }
      case 'properties':
        schema['properties'] = {}
        yield compileProperties(value, here, schema, compilation)
        break
      case 'enum':
        schema['enum'] = dense(value, here, compilation)
        break
      default:
        schema[key] = detached(value)
    }
  }
  compilation.ancestors.delete(spec)
}

/** Fills `schema.properties` and, if a member is required, `schema.required` from a property map. */
function* compileProperties(spec: unknown, trail: Trail | undefined, schema: Draft, compilation: Compilation): Walk {
  const required: string[] = []
  for (const [name, member] of read(spec, trail, compilation)) {
    const draft: Draft = {}
    setOwn(schema['properties'] as Draft, name, draft)
    yield compileNode(member, { parent: trail, step: name }, true, draft, compilation)
    if (Object.hasOwn(member as object, 'required')) required.push(name)
  }
  if (required.length > 0) schema['required'] = required
  compilation.ancestors.delete(spec)
}

/** Reads each member of an ordinary record once, and enters it. The caller leaves it again. */
function read(spec: unknown, trail: Trail | undefined, compilation: Compilation): Map<string, unknown> {
  if (!isRecord(spec)) throw failure(trail, 'must be a plain object with enumerable string keys only', compilation)
  if (compilation.ancestors.has(spec)) throw failure(trail, 'is circular', compilation)
  compilation.ancestors.add(spec)
  return new Map(Object.keys(spec).map((key) => [key, spec[key]]))
}

function checkKeys(
  node: ReadonlyMap<string, unknown>,
  trail: Trail | undefined,
  isMember: boolean,
  compilation: Compilation
): void {
  const fail = (step: string, text: string): JsonSchemaError => failure({ parent: trail, step }, text, compilation)
  if (node.has('type') && node.has('oneOf')) throw fail('oneOf', 'may not stand beside "type"')
  if (!node.has('type') && !node.has('oneOf')) throw failure(trail, 'needs a "type" or a "oneOf"', compilation)
  const type = node.get('type')
  const allowed = node.has('oneOf') ? keysOfOneOf : keysOfKind.get(type)
  if (allowed === undefined) throw fail('type', `must be one of ${[...keysOfKind.keys()].join(', ')}`)
  for (const [key, value] of node) {
    if (key === 'required' && isMember) {
      if (value !== true) throw fail(key, 'must be true or absent')
    } else if (!allowed.has(key)) throw fail(key, 'is not a key of this kind of spec')
  }
  if (type === 'object' && typeof node.get('additionalProperties') !== 'boolean') {
    throw fail('additionalProperties', 'must be written out as true or false')
  }
}

function dense(value: unknown, trail: Trail, compilation: Compilation): unknown[] {
  if (!isDenseArray(value)) throw failure(trail, 'must be a dense array without further properties', compilation)
  return [...value]
}

// A lossy value is kept as it is: the second phase reports it, together with all others (core.md §4.7).
function detached(value: unknown): unknown {
  try {
    return snapshot(value)
  } catch {
    return value
  }
}

function failure(trail: Trail | undefined, text: string, { root }: Compilation): JsonSchemaError {
  return new JsonSchemaError([`"${formatPath(root, stepsOf(trail))}" ${text}`])
}
