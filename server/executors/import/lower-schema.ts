import { isJsonObject, type JsonObject, type JsonValue } from '../../json/lossless.ts'
import { setOwn } from '../../json/plain.ts'
import { LeftOut, member, type References } from './references.ts'

const singles = new Set([
  ...['items', 'additionalProperties', 'not', 'contains', 'propertyNames', 'if', 'then', 'else'],
  ...['unevaluatedItems', 'unevaluatedProperties']
])
const lists = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems'])
const maps = new Set(['properties', 'patternProperties', 'dependentSchemas'])
const plain = new Set([
  ...['type', 'format', 'description', 'pattern', 'enum', 'const', 'required', 'dependentRequired'],
  ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf', 'minLength', 'maxLength'],
  ...['minItems', 'maxItems', 'minContains', 'maxContains', 'minProperties', 'maxProperties']
])
/** Texts, numbers and names in one schema, in characters: what compiles has no more, and what has more costs time to find out. */
const maxSize = 64 * 1024
const maxDescription = 1_000
const maxUnique = 1_000

export interface LoweringOptions {
  readonly references: References
  readonly version: '3.0' | '3.1'
  /** What is sent has no `readOnly` members, what comes back no `writeOnly` ones. */
  readonly direction: 'request' | 'response'
  /** Patterns are left out, where the engine does not support them. */
  readonly omitsPatterns?: boolean
}

/**
 * Turns schemas of an OpenAPI document into one of JSON Schema 2020-12 that stands by itself: what they refer to is among its `$defs`,
 * `nullable` and the boolean bounds of 3.0 are written as 2020-12 has them, and what no validator knows is gone. Throws `LeftOut` for what cannot
 * be said so. Recursive: a document is at most 256 levels deep, and a reference never leads deeper.
 */
export class SchemaLowering {
  readonly #options: LoweringOptions
  /** By reference, in the order in which they were met. */
  readonly #names = new Map<string, string>()
  readonly #definitions: JsonObject = {}
  #size = 0

  constructor(options: LoweringOptions) {
    this.#options = options
  }

  /** What the lowered schemas refer to: the `$defs` of the schema that they are put in. */
  get definitions(): { $defs?: JsonObject } {
    return this.#names.size === 0 ? {} : { $defs: this.#definitions }
  }

  lower(schema: JsonValue): JsonValue {
    if (typeof schema === 'boolean') return schema
    if (!isJsonObject(schema)) throw new LeftOut('has a schema that is neither an object nor a boolean')
    const ref = member(schema, '$ref')
    if (ref !== undefined && this.#options.version === '3.0') return this.#reference(ref)
    if (Object.hasOwn(schema, '$dynamicRef')) throw new LeftOut('has a schema with a "$dynamicRef"')
    const lowered: JsonObject = ref === undefined ? {} : this.#reference(ref)
    for (const [keyword, value] of Object.entries(schema)) this.#keyword(lowered, keyword, value)
    this.#bounds(lowered)
    this.#uniqueness(lowered, schema)
    this.#withoutOtherDirection(lowered, schema)
    return member(schema, 'nullable') === true && this.#options.version === '3.0' ? nullable(lowered) : lowered
  }

  #keyword(lowered: JsonObject, keyword: string, value: JsonValue): void {
    this.#spend(keyword.length)
    if (singles.has(keyword)) lowered[keyword] = this.lower(value)
    else if (lists.has(keyword) && Array.isArray(value)) lowered[keyword] = value.map((item) => this.lower(item))
    else if (maps.has(keyword) && isJsonObject(value)) {
      const map: JsonObject = {}
      for (const [name, item] of Object.entries(value)) {
        this.#spend(name.length)
        setOwn(map, name, this.lower(item))
      }
      lowered[keyword] = map
    } else if (keyword === 'description' && typeof value === 'string') {
      lowered[keyword] = value.slice(0, maxDescription)
      this.#spend(Math.min(value.length, maxDescription))
    } else if (keyword === 'pattern' && this.#options.omitsPatterns === true) return
    else if (keyword === 'default' && typeof value !== 'object') lowered[keyword] = value
    else if (plain.has(keyword)) {
      this.#spendOn(value)
      lowered[keyword] = value
    }
  }

  #reference(ref: JsonValue): JsonObject {
    if (typeof ref !== 'string') throw new LeftOut('has a schema with a "$ref" that is no text')
    const known = this.#names.get(ref)
    if (known !== undefined) return { $ref: `#/$defs/${known}` }
    const target = this.#options.references.target(ref)
    const last = ref
      .slice(ref.lastIndexOf('/') + 1)
      .replaceAll(/[^A-Za-z0-9_.-]/g, '_')
      .slice(0, 64)
    const base = /^[A-Za-z]/.test(last) ? last : `schema${last}`
    let name = base
    for (let count = 2; Object.hasOwn(this.#definitions, name); count += 1) name = `${base}_${count}`
    this.#spend(name.length)
    // Known before it is lowered: it may refer to itself.
    this.#names.set(ref, name)
    this.#definitions[name] = true
    this.#definitions[name] = this.lower(target)
    return { $ref: `#/$defs/${name}` }
  }

  /** 3.0 has `exclusiveMinimum: true` beside a `minimum`. */
  #bounds(lowered: JsonObject): void {
    for (const [exclusive, bound] of [
      ['exclusiveMinimum', 'minimum'],
      ['exclusiveMaximum', 'maximum']
    ] as const) {
      if (typeof lowered[exclusive] !== 'boolean') continue
      const isExclusive = lowered[exclusive] && typeof lowered[bound] === 'number'
      delete lowered[exclusive]
      if (!isExclusive) continue
      lowered[exclusive] = lowered[bound] as number
      delete lowered[bound]
    }
  }

  /** Comparing all items with each other is only for short lists (reliability.md §1.6); the server of the tool checks as well. */
  #uniqueness(lowered: JsonObject, schema: JsonObject): void {
    const maxItems = member(schema, 'maxItems')
    if (member(schema, 'uniqueItems') === true && typeof maxItems === 'number' && maxItems <= maxUnique) {
      lowered['uniqueItems'] = true
    }
  }

  #withoutOtherDirection(lowered: JsonObject, schema: JsonObject): void {
    const properties = member(schema, 'properties')
    if (!isJsonObject(properties)) return
    const mark = this.#options.direction === 'request' ? 'readOnly' : 'writeOnly'
    const gone = Object.entries(properties).filter(([, item]) => isJsonObject(item) && member(item, mark) === true)
    const names = new Set(gone.map(([name]) => name))
    if (names.size === 0) return
    for (const name of names) delete (lowered['properties'] as JsonObject)[name]
    const { required } = lowered
    if (Array.isArray(required)) lowered['required'] = required.filter((name) => !names.has(name as string))
  }

  #spendOn(value: JsonValue): void {
    if (typeof value !== 'object' || value === null) return this.#spend(String(value).length)
    for (const [key, item] of Object.entries(value)) {
      this.#spend(Array.isArray(value) ? 1 : key.length)
      this.#spendOn(item)
    }
  }

  #spend(size: number): void {
    this.#size += size + 1
    if (this.#size > maxSize) throw new LeftOut(`has a schema of more than ${maxSize} characters`)
  }
}

function nullable(schema: JsonObject): JsonObject {
  const { type } = schema
  if (typeof type !== 'string') return Object.keys(schema).length === 0 ? schema : { anyOf: [schema, { type: 'null' }] }
  const values = schema['enum']
  return {
    ...schema,
    type: [type, 'null'],
    ...(Array.isArray(values) && !values.includes(null) && { enum: [...values, null] })
  }
}
