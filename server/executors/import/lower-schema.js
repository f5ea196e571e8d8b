import { isObject, LeftOut, member } from './references.js'

/**
 * @import { JsonObject, JsonValue } from '../../json/lossless.ts'
 * @import { ApiDocument } from './import-job.ts'
 * @import { References } from './references.js'
 */

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

/**
 * What is sent has no `readOnly` members, what comes back no `writeOnly` ones. Patterns are left out where the engine does not support
 * them.
 * @typedef {object} LoweringOptions
 * @property {References} references
 * @property {ApiDocument['version']} version
 * @property {'request' | 'response'} direction
 * @property {boolean} [omitsPatterns]
 */

/**
 * Turns schemas of an OpenAPI document into one of JSON Schema 2020-12 that stands by itself: what they refer to is among its `$defs`,
 * `nullable` and the boolean bounds of 3.0 are written as 2020-12 has them, and what no validator knows is gone. Throws `LeftOut` for what cannot
 * be said so. Recursive: a document is at most 256 levels deep, and a reference never leads deeper.
 */
export class SchemaLowering {
  #options
  /**
   * By reference, in the order in which they were met.
   * @type {Map<string, string>}
   */
  #names = new Map()
  /** @type {JsonObject} */
  #definitions = {}
  #size = 0

  /** @param {LoweringOptions} options */
  constructor(options) {
    this.#options = options
  }

  /**
   * What the lowered schemas refer to: the `$defs` of the schema that they are put in.
   * @returns {{ $defs?: JsonObject }}
   */
  get definitions() {
    return this.#names.size === 0 ? {} : { $defs: this.#definitions }
  }

  /** @param {JsonValue} schema @returns {JsonValue} */
  lower(schema) {
    if (typeof schema === 'boolean') return schema
    if (!isObject(schema)) throw new LeftOut('has a schema that is neither an object nor a boolean')
    const ref = member(schema, '$ref')
    if (ref !== undefined && this.#options.version === '3.0') return this.#reference(ref)
    if (Object.hasOwn(schema, '$dynamicRef')) throw new LeftOut('has a schema with a "$dynamicRef"')
    /** @type {JsonObject} */
    const lowered = ref === undefined ? {} : this.#reference(ref)
    for (const [keyword, value] of Object.entries(schema)) this.#keyword(lowered, keyword, value)
    this.#bounds(lowered)
    this.#uniqueness(lowered, schema)
    this.#withoutOtherDirection(lowered, schema)
    return member(schema, 'nullable') === true && this.#options.version === '3.0' ? nullable(lowered) : lowered
  }

  /** @param {JsonObject} lowered @param {string} keyword @param {JsonValue} value */
  #keyword(lowered, keyword, value) {
    this.#spend(keyword.length)
    if (singles.has(keyword)) lowered[keyword] = this.lower(value)
    else if (lists.has(keyword) && Array.isArray(value)) lowered[keyword] = value.map((item) => this.lower(item))
    else if (maps.has(keyword) && isObject(value)) {
      // So `__proto__` becomes a member like any other.
      lowered[keyword] = Object.fromEntries(
        Object.entries(value).map(([name, item]) => {
          this.#spend(name.length)
          return [name, this.lower(item)]
        })
      )
    } else if (keyword === 'description' && typeof value === 'string') {
      lowered[keyword] = value.slice(0, maxDescription)
      this.#spend(Math.min(value.length, maxDescription))
    } else if (keyword === 'pattern' && this.#options.omitsPatterns === true) return
    else if (keyword === 'default' && typeof value !== 'object') {
      this.#spendOn(value)
      lowered[keyword] = value
    } else if (plain.has(keyword)) {
      this.#spendOn(value)
      lowered[keyword] = value
    }
  }

  /** @param {JsonValue} ref @returns {JsonObject} */
  #reference(ref) {
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

  /**
   * 3.0 has `exclusiveMinimum: true` beside a `minimum`.
   * @param {JsonObject} lowered
   */
  #bounds(lowered) {
    for (const [exclusive, bound] of /** @type {const} */ ([
      ['exclusiveMinimum', 'minimum'],
      ['exclusiveMaximum', 'maximum']
    ])) {
      if (typeof lowered[exclusive] !== 'boolean') continue
      const isExclusive = lowered[exclusive] && typeof lowered[bound] === 'number'
      delete lowered[exclusive]
      if (!isExclusive) continue
      lowered[exclusive] = /** @type {number} */ (lowered[bound])
      delete lowered[bound]
    }
  }

  /**
   * Comparing all items with each other is only for short lists (reliability.md §1.6); the server of the tool checks as well.
   * @param {JsonObject} lowered @param {JsonObject} schema
   */
  #uniqueness(lowered, schema) {
    const maxItems = member(schema, 'maxItems')
    if (member(schema, 'uniqueItems') === true && typeof maxItems === 'number' && maxItems <= maxUnique) {
      lowered['uniqueItems'] = true
    }
  }

  /** @param {JsonObject} lowered @param {JsonObject} schema */
  #withoutOtherDirection(lowered, schema) {
    const properties = member(schema, 'properties')
    if (!isObject(properties)) return
    const mark = this.#options.direction === 'request' ? 'readOnly' : 'writeOnly'
    const gone = Object.entries(properties).filter(([, item]) => isObject(item) && member(item, mark) === true)
    const names = new Set(gone.map(([name]) => name))
    if (names.size === 0) return
    for (const name of names) delete (/** @type {JsonObject} */ (lowered['properties'])[name])
    const { required } = lowered
    if (Array.isArray(required))
      lowered['required'] = required.filter((name) => !names.has(/** @type {string} */ (name)))
  }

  /** @param {JsonValue} value */
  #spendOn(value) {
    if (typeof value !== 'object' || value === null) return this.#spend(String(value).length)
    // Lists of 50,000 values, all entries of which were made before the first was looked at, took 10 ms for each operation.
    const items = Array.isArray(value) ? value : undefined
    for (const at of items?.keys() ?? Object.keys(value)) {
      this.#spend(typeof at === 'string' ? at.length : 1)
      this.#spendOn(/** @type {Record<string | number, JsonValue>} */ (/** @type {unknown} */ (value))[at] ?? null)
    }
  }

  /** @param {number} size */
  #spend(size) {
    this.#size += size + 1
    if (this.#size > maxSize) throw new LeftOut(`has a schema of more than ${maxSize} characters`)
  }
}

/** @param {JsonObject} schema @returns {JsonObject} */
function nullable(schema) {
  const { type } = schema
  if (typeof type !== 'string') return Object.keys(schema).length === 0 ? schema : { anyOf: [schema, { type: 'null' }] }
  const values = schema['enum']
  return {
    ...schema,
    type: [type, 'null'],
    ...(Array.isArray(values) && !values.includes(null) && { enum: [...values, null] })
  }
}
