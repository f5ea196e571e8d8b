import { isLosslessJson } from '../json/lossless.ts'
import type { Trail } from '../json/path.ts'
import { isDenseArray, isPlainObject, ownValue } from '../json/plain.ts'
import { isOfType, type ScalarType } from './scalar-types.ts'
import type { JsonSchema } from './spec.ts'
import { Violations } from './violations.ts'
import { runWalk, type Walk } from './walk.ts'

// A body of megabytes can break a rule a million times, and the list travels in a result and its event.
const longestList = 100

/**
 * Lists how a value breaks a supported schema (core.md §3.12–3.18); empty means valid. Paths begin with `rootLabel`: `value`
 * for outputs, empty for arguments. Never throws, whatever the value does when it is read; iterative. After 100 violations
 * the check stops and says so.
 */
export function validateValue(schema: JsonSchema, value: unknown, rootLabel: string): string[] {
  const found = new Violations(longestList)
  const walk = check(schema, value, undefined, found)
  if (walk !== undefined) runWalk(walk)
  const texts = found.texts(rootLabel)
  if (found.isFull) texts.push(`the check stopped after ${longestList} violations`)
  return texts
}

const notLossless = 'is not a lossless JSON value'

/** Checks a value without parts at once; of one with parts, or of a union, returns the walk to run. */
function check(schema: JsonSchema, value: unknown, trail: Trail | undefined, found: Violations): Walk | undefined {
  const oneOf = ownValue(schema, 'oneOf')
  if (oneOf !== undefined) return checkOneOf(oneOf as JsonSchema[], value, trail, found)
  const type = ownValue(schema, 'type')
  if (type === 'object') return checkObject(schema, value, trail, found)
  if (type === 'array') return checkArray(schema, value, trail, found)
  if (type === undefined) {
    if (!isLosslessJson(value)) found.add(trail, notLossless)
  } else checkScalar(schema, type as ScalarType, value, trail, found)
  return undefined
}

function* checkOneOf(branches: JsonSchema[], value: unknown, trail: Trail | undefined, found: Violations): Walk {
  let matches = 0
  for (const branch of branches) {
    const foundInBranch = new Violations(1)
    const walk = check(branch, value, trail, foundInBranch)
    if (walk !== undefined) yield walk
    if (foundInBranch.count === 0) matches += 1
  }
  if (matches !== 1) found.add(trail, `must match exactly one branch of "oneOf", but matches ${matches}`)
}

function* checkObject(schema: JsonSchema, value: unknown, trail: Trail | undefined, found: Violations): Walk {
  const before = found.count
  try {
    if (!isObject(value)) return found.add(trail, 'must be an object')
    const properties = (ownValue(schema, 'properties') ?? {}) as Record<string, JsonSchema>
    for (const name of (ownValue(schema, 'required') ?? []) as string[]) {
      if (ownValue(value, name) === undefined) found.add({ parent: trail, step: name }, 'is required')
    }
    for (const name of Object.keys(properties)) {
      const item = ownValue(value, name)
      if (item === undefined) continue
      const walk = check(properties[name]!, item, { parent: trail, step: name }, found)
      if (walk !== undefined) yield walk
      if (found.isFull) return
    }
    if (ownValue(schema, 'additionalProperties') === false) checkClosed(value, properties, trail, found)
    if (found.count === before && !isRestLossless(value, properties)) found.add(trail, notLossless)
  } catch {
    found.add(trail, notLossless)
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && isPlainObject(value)
}

function checkClosed(value: object, properties: object, trail: Trail | undefined, found: Violations): void {
  for (const key of Reflect.ownKeys(value)) {
    if (found.isFull) return
    if (!Object.hasOwn(properties, key)) found.add({ parent: trail, step: String(key) }, 'is not declared')
  }
}

// Declared members are known to be lossless by now: testing them again at every level would be quadratic in the depth.
function isRestLossless(value: Record<string, unknown>, properties: object): boolean {
  const keys = Object.keys(value)
  if (Reflect.ownKeys(value).length !== keys.length) return false
  return keys.every((key) => (Object.hasOwn(properties, key) ? value[key] !== undefined : isLosslessJson(value[key])))
}

function* checkArray(schema: JsonSchema, value: unknown, trail: Trail | undefined, found: Violations): Walk {
  const before = found.count
  try {
    if (!Array.isArray(value)) return found.add(trail, 'must be an array')
    const items = ownValue(schema, 'items') as JsonSchema | undefined
    const isLossless = items === undefined ? isLosslessJson(value) : isDenseArray(value)
    if (items !== undefined) {
      for (const index of isLossless ? value.keys() : presentIndices(value)) {
        const walk = check(items, value[index], { parent: trail, step: index }, found)
        if (walk !== undefined) yield walk
        if (found.isFull) return
      }
    }
    if (found.count === before && !isLossless) found.add(trail, 'is not a dense array of lossless JSON values')
  } catch {
    found.add(trail, notLossless)
  }
}

// Not a count up to `length`, which an array of no items may have set to four billion.
function presentIndices(value: readonly unknown[]): number[] {
  return Object.keys(value)
    .filter((key) => /^(?:0|[1-9]\d*)$/.test(key))
    .map(Number)
}

function checkScalar(
  schema: JsonSchema,
  type: ScalarType,
  value: unknown,
  trail: Trail | undefined,
  found: Violations
): void {
  if (!isOfType(type, value)) return found.add(trail, expectation(type, value))
  const allowed = ownValue(schema, 'enum') as unknown[] | undefined
  if (allowed !== undefined && !allowed.includes(value)) found.add(trail, `must be one of ${JSON.stringify(allowed)}`)
  else if (Object.hasOwn(schema, 'const') && schema['const'] !== value) {
    found.add(trail, `must be ${JSON.stringify(schema['const'])}`)
  }
}

function expectation(type: ScalarType, value: unknown): string {
  if (type === 'number' && typeof value === 'number') return 'must be a finite JSON number, and not -0'
  if (type === 'null') return 'must be null'
  return `must be ${type === 'integer' ? 'an' : 'a'} ${type}`
}
