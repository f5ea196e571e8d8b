import { Ajv } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe } from './ajv-errors.js'
import { linearRegex } from './linear-regex.js'

/**
 * @import { Options, ValidateFunction } from 'ajv'
 * @import { PathStep } from '../json/path.ts'
 * @import { Answer, Program, Request } from './ajv-job.ts'
 */

/**
 * reliability.md §1.6. `optimize` made compiling 1,600 properties take 1.8 s instead of 0.5 s. A format is an annotation, as both
 * drafts allow and 2020-12 prescribes.
 * @type {Options}
 */
const options = {
  strict: false,
  ownProperties: true,
  allErrors: false,
  validateFormats: false,
  logger: false,
  code: { regExp: Object.assign(linearRegex, { code: 'linearRegex' }), optimize: false }
}

const dialects = {
  '2020-12': { Ajv: Ajv2020, id: 'https://json-schema.org/draft/2020-12/schema', meta: new Ajv2020(options) },
  'draft-07': { Ajv, id: 'http://json-schema.org/draft-07/schema', meta: new Ajv(options) }
}

// The first compilation of each meta-schema takes tens of milliseconds, which are no schema's fault.
for (const { id, meta } of Object.values(dialects)) meta.validate(id, { type: 'object' })

/** Compiles schemas, keeps them, and checks values. What it is given may take for ever: it belongs in a thread that can be killed. */
export class SchemaJudge {
  /**
   * What is compiled, the least recently used first. A schema counts as its text, and as no less than 8 KiB for what surrounds it.
   * @type {Map<number, { validate: ValidateFunction, weight: number }>}
   */
  #compiled = new Map()
  #weight = 0
  #maxWeight

  /** @param {number} maxWeight characters */
  constructor(maxWeight = 4 * 1024 * 1024) {
    this.#maxWeight = maxWeight
  }

  /** @param {Request} request @returns {Answer} */
  answer({ key, program, value }) {
    const known = this.#compiled.get(key)
    if (known === undefined) {
      if (program === undefined) return { type: 'forgotten' }
      const validate = compile(program)
      if (typeof validate !== 'function') return validate
      this.#keep(key, validate, program)
      return check(validate, value)
    }
    this.#compiled.delete(key)
    this.#compiled.set(key, known)
    return check(known.validate, value)
  }

  /** @param {number} key @param {ValidateFunction} validate @param {Program} program */
  #keep(key, validate, { text }) {
    const weight = Math.max(text.length, 8 * 1024)
    this.#compiled.set(key, { validate, weight })
    this.#weight += weight
    for (const [oldest, entry] of this.#compiled) {
      if (this.#weight <= this.#maxWeight || oldest === key) break
      this.#compiled.delete(oldest)
      this.#weight -= entry.weight
    }
  }
}

/** @param {Program} program @returns {ValidateFunction | Answer} */
function compile({ dialect, given, text, patterns }) {
  for (const { steps, pattern } of patterns) {
    try {
      linearRegex(pattern)
    } catch (error) {
      return invalid(steps, `is not supported: ${messageOf(error)}`)
    }
  }
  try {
    const schema = JSON.parse(given)
    const { Ajv, id, meta } = dialects[dialect]
    if (!meta.validate(id, schema)) return { type: 'invalid', violation: describe(meta.errors, schema) }
    // One instance a schema, which is collected with it: an instance keeps all that it ever compiled.
    const ajv = new Ajv({ ...options, meta: false, validateSchema: false })
    // Not of these dialects, so unknown, but ajv would obey them.
    for (const keyword of ['id', '$recursiveRef', '$recursiveAnchor']) ajv.removeKeyword(keyword)
    return ajv.compile(JSON.parse(text))
  } catch (error) {
    return invalid([], `does not compile: ${messageOf(error)}`)
  }
}

/** @param {ValidateFunction} validate @param {string | undefined} text @returns {Answer} */
function check(validate, text) {
  if (text === undefined) return { type: 'valid' }
  try {
    const value = JSON.parse(text)
    // A promise, which an asynchronous validator would give, is no answer.
    const verdict = /** @type {unknown} */ (validate(value))
    return verdict === true ? { type: 'valid' } : { type: 'invalid', violation: describe(validate.errors, value) }
  } catch (error) {
    // Recursion without end in the schema, or values that nest deeper than the stack.
    return invalid([], `cannot be checked: ${messageOf(error)}`)
  }
}

/** @param {readonly PathStep[]} steps @param {string} text @returns {Answer} */
const invalid = (steps, text) => ({ type: 'invalid', violation: { steps, text, details: [] } })

/** @param {unknown} error what ajv, its validators, JSON.parse and re2js throw: errors */
const messageOf = (error) => /** @type {Error} */ (error).message.slice(0, 500)
