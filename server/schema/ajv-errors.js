/**
 * @import { ErrorObject } from 'ajv'
 * @import { Violation } from './ajv-job.ts'
 */

const maxDetails = 5
const longestText = 300

/**
 * What is wrong with a value, from the errors of a validator that stops at the first. Errors of branches come before that of the
 * keyword that holds them, so the last one tells, and the others explain it.
 * @param {readonly ErrorObject[] | null | undefined} errors @param {unknown} value @returns {Violation}
 */
export function describe(errors, value) {
  // A validator that promises an answer has none.
  if (!errors) return { steps: [], text: 'does not match its schema', details: [] }
  const last = /** @type {ErrorObject} */ (errors.at(-1))
  /** @type {ReturnType<typeof placed>[]} */
  const details = []
  for (const error of errors.slice(0, -1)) {
    if (details.length === maxDetails) break
    details.push(placed(error, value))
  }
  return { ...placed(last, value), details }
}

/** @param {ErrorObject} error @param {unknown} value */
function placed({ instancePath, keyword, params, message }, value) {
  const steps = stepsOf(instancePath, value)
  switch (keyword) {
    case 'required':
      return { steps: [...steps, String(params['missingProperty'])], text: 'is required' }
    case 'additionalProperties':
      return { steps: [...steps, String(params['additionalProperty'])], text: 'is not declared' }
    case 'unevaluatedProperties':
      return { steps: [...steps, String(params['unevaluatedProperty'])], text: 'is not declared' }
    case 'enum':
      return { steps, text: clip(`must be one of ${JSON.stringify(params['allowedValues'])}`) }
    case 'const':
      return { steps, text: clip(`must be ${JSON.stringify(params['allowedValue'])}`) }
    default:
      return { steps, text: clip(String(message)) }
  }
}

/** The steps of a JSON pointer into the value; which of them are indices only the value tells. @param {string} pointer @param {unknown} value */
function stepsOf(pointer, value) {
  /** @type {(string | number)[]} */
  const steps = []
  let at = value
  for (const escaped of pointer.split('/').slice(1)) {
    const key = escaped.replaceAll('~1', '/').replaceAll('~0', '~')
    steps.push(Array.isArray(at) ? Number(key) : key)
    at = /** @type {Record<string, unknown>} */ (at)[key]
  }
  return steps
}

/** @param {string} text */
const clip = (text) => (text.length > longestText ? `${text.slice(0, longestText)}…` : text)
