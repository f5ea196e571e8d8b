import { canonicalJson } from '../json/canonical.ts'
import { isJsonObject, type JsonObject, type JsonValue } from '../json/lossless.ts'
import { formatPath, type PathStep } from '../json/path.ts'

/** All that tells a model or a caller what a call of a tool means. */
export interface PinnedDefinition {
  readonly description: string
  readonly parameters: JsonObject
  /** The schema of its value, where it states one. */
  readonly output?: JsonObject
}

/** How one definition differs from another, a line each. */
export interface Drift {
  /** What changes what a call means, or what a model is told of it. */
  readonly changes: string[]
  /** What does no harm: added optional properties, and wording that no schema is bound by. */
  readonly additions: string[]
}

/** Quoted of a text in a difference. */
const maxQuoted = 200
/** Lines of one drift: people read them. */
const maxLines = 50

/** What nobody is bound by and no model is steered by. */
const wording = new Set(['title', '$comment', 'examples', '$schema'])
/** What holds schemas in which an added optional property only ever admits more. `not`, `oneOf` and `if` may turn that around. */
const single = new Set(['items', 'additionalProperties'])
const maps = new Set(['$defs', 'definitions'])
const lists = new Set(['anyOf', 'allOf', 'prefixItems'])

/** The drift from one definition to another; nothing in it means that they say the same (reliability.md §1.3). */
export function driftOf(before: PinnedDefinition, after: PinnedDefinition): Drift {
  const drift: Drift = { changes: [], additions: [] }
  if (before.description !== after.description) {
    drift.changes.push(`the description was ${quoted(before.description)} and is ${quoted(after.description)}`)
  }
  compare(before.parameters, after.parameters, ['parameters'], drift)
  if (before.output === undefined || after.output === undefined) {
    if (before.output !== after.output) {
      drift.changes.push(before.output === undefined ? 'output: is new' : 'output: is gone')
    }
  } else compare(before.output, after.output, ['output'], drift)
  return { changes: drift.changes.slice(0, maxLines), additions: drift.additions.slice(0, maxLines) }
}

function compare(before: JsonObject, after: JsonObject, at: readonly PathStep[], drift: Drift): void {
  for (const keyword of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const old = own(before, keyword)
    const now = own(after, keyword)
    if (isEqual(old, now)) continue
    const place = [...at, keyword]
    if (keyword === 'properties') compareProperties(old ?? {}, now ?? {}, place, drift)
    else if (keyword === 'required') compareRequired(old, now, place, drift)
    else if (wording.has(keyword)) drift.additions.push(`${told(place)}: other wording`)
    else if (single.has(keyword) && isJsonObject(old) && isJsonObject(now)) compare(old, now, place, drift)
    else if (maps.has(keyword) && isJsonObject(old) && isJsonObject(now)) compareMaps(old, now, place, drift)
    else if (lists.has(keyword) && Array.isArray(old) && Array.isArray(now) && old.length === now.length) {
      for (const [index, item] of old.entries()) compareSchemas(item, now[index]!, [...place, index], drift)
    } else drift.changes.push(`${told(place)}: was ${quoted(old)} and is ${quoted(now)}`)
  }
}

function compareProperties(old: JsonValue, now: JsonValue, at: readonly PathStep[], drift: Drift): void {
  if (!isJsonObject(old) || !isJsonObject(now)) {
    drift.changes.push(`${told(at)}: was ${quoted(old)} and is ${quoted(now)}`)
    return
  }
  compareMaps(old, now, at, drift)
}

/** What is added is optional unless `required` names it, which is compared by itself. */
function compareMaps(old: JsonObject, now: JsonObject, at: readonly PathStep[], drift: Drift): void {
  for (const name of new Set([...Object.keys(old), ...Object.keys(now)])) {
    const [before, after] = [own(old, name), own(now, name)]
    if (before === undefined) drift.additions.push(`${told([...at, name])}: is new`)
    else if (after === undefined) drift.changes.push(`${told([...at, name])}: is gone`)
    else compareSchemas(before, after, [...at, name], drift)
  }
}

function compareSchemas(before: JsonValue, after: JsonValue, at: readonly PathStep[], drift: Drift): void {
  if (isEqual(before, after)) return
  if (isJsonObject(before) && isJsonObject(after)) compare(before, after, at, drift)
  else drift.changes.push(`${told(at)}: was ${quoted(before)} and is ${quoted(after)}`)
}

/** An order among the names means nothing. */
function compareRequired(
  old: JsonValue | undefined,
  now: JsonValue | undefined,
  at: readonly PathStep[],
  drift: Drift
): void {
  const [before, after] = [names(old), names(now)]
  if (before === after) return
  drift.changes.push(`${told(at)}: was ${quoted(old ?? [])} and is ${quoted(now ?? [])}`)
}

const names = (value: JsonValue | undefined): string =>
  Array.isArray(value) ? canonicalJson(value.map((name) => canonicalJson(name)).sort()) : canonicalJson(value ?? [])

const told = ([root, ...steps]: readonly PathStep[]): string => formatPath(String(root), steps)

function quoted(value: JsonValue | undefined): string {
  if (value === undefined) return 'absent'
  const text = canonicalJson(value)
  return text.length > maxQuoted ? `${text.slice(0, maxQuoted)}… (${text.length} characters)` : text
}

const own = (schema: JsonObject, key: string): JsonValue | undefined =>
  Object.hasOwn(schema, key) ? schema[key] : undefined

const isEqual = (a: JsonValue | undefined, b: JsonValue | undefined): boolean =>
  a === b || (a !== undefined && b !== undefined && canonicalJson(a) === canonicalJson(b))
