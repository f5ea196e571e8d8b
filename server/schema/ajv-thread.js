/** The thread that compiles and runs schemas from outside (ajv-validator.ts); it is killed when one takes too long. */
import { parentPort } from 'node:worker_threads'
import { Ajv } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe } from './ajv-errors.js'
import { linearRegex } from './linear-regex.js'

/**
 * @import { ErrorObject, Options, ValidateFunction } from 'ajv'
 * @import { Answer, Program, Request } from './ajv-runner.ts'
 */

const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort)

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

/**
 * What is compiled, the least recently used first. A schema counts as its text, and as no less than 8 KiB for what surrounds it.
 * @type {Map<number, { validate: ValidateFunction, weight: number }>}
 */
const compiled = new Map()
const maxWeight = 4 * 1024 * 1024
let weight = 0

/** @param {number} key @param {ValidateFunction} validate @param {Program} program */
function keep(key, validate, { text }) {
  const own = Math.max(text.length, 8 * 1024)
  compiled.set(key, { validate, weight: own })
  weight += own
  for (const [oldest, entry] of compiled) {
    if (weight <= maxWeight || oldest === key) break
    compiled.delete(oldest)
    weight -= entry.weight
  }
}

/** @param {Program} program @returns {ValidateFunction | Answer} */
function compile({ dialect, text, patterns }) {
  for (const [index, pattern] of patterns.entries()) {
    try {
      linearRegex(pattern)
    } catch (error) {
      return { type: 'bad-pattern', index, text: messageOf(error) }
    }
  }
  try {
    const schema = JSON.parse(text)
    const { Ajv, id, meta } = dialects[dialect]
    if (!meta.validate(id, schema)) return { type: 'invalid', violation: describe(meta.errors ?? [], schema) }
    // One instance a schema, which is collected with it: an instance keeps all that it ever compiled.
    const ajv = new Ajv({ ...options, meta: false, validateSchema: false })
    // Not of these dialects, so unknown, but ajv would obey them.
    for (const keyword of ['id', '$recursiveRef', '$recursiveAnchor']) ajv.removeKeyword(keyword)
    return ajv.compile(schema)
  } catch (error) {
    return { type: 'invalid', violation: { steps: [], text: `does not compile: ${messageOf(error)}`, details: [] } }
  }
}

/** @param {Request} request @returns {Answer} */
function answer({ key, program, value }) {
  const known = compiled.get(key)
  if (known === undefined && program === undefined) return { type: 'forgotten' }
  const validate = known?.validate ?? compile(/** @type {Program} */ (program))
  if (typeof validate !== 'function') return validate
  if (known === undefined) keep(key, validate, /** @type {Program} */ (program))
  else {
    compiled.delete(key)
    compiled.set(key, known)
  }
  return value === undefined ? { type: 'valid' } : check(validate, value)
}

/** @param {ValidateFunction} validate @param {string} text @returns {Answer} */
function check(validate, text) {
  try {
    const value = JSON.parse(text)
    // A promise, which an asynchronous validator would give, is no answer.
    const verdict = /** @type {unknown} */ (validate(value))
    if (verdict === true) return { type: 'valid' }
    return { type: 'invalid', violation: describe(validate.errors ?? [], value) }
  } catch (error) {
    // Recursion without end in the schema, or values that nest deeper than the stack.
    return { type: 'invalid', violation: { steps: [], text: `cannot be checked: ${messageOf(error)}`, details: [] } }
  }
}

/** @param {unknown} error */
const messageOf = (error) => (error instanceof Error ? error.message : String(error)).slice(0, 500)

// The first compilation of each meta-schema takes tens of milliseconds, which are no schema's fault.
for (const { id, meta } of Object.values(dialects)) meta.validate(id, { type: 'object' })
port.on('message', (/** @type {Request} */ request) => port.postMessage(answer(request)))
port.postMessage({ type: 'ready' })
