import { SchemaLowering } from './lower-schema.js'
import { isJsonType } from './parameters.js'
import { entriesOf, isObject, LeftOut, member } from './references.js'

/**
 * @import { JsonObject, JsonValue } from '../../json/lossless.ts'
 * @import { Operation } from './import-job.ts'
 * @import { LoweringOptions } from './lower-schema.js'
 */

/**
 * The schema of what an operation answers when it succeeds, if the document says it for each success: JSON of a schema, or nothing by its
 * status, which is `null`. Undefined when it says nothing of use. Throws `LeftOut` for schemas that cannot be said in JSON Schema 2020-12.
 * @param {Operation} operation @param {Omit<LoweringOptions, 'direction'>} options
 * @returns {JsonObject | undefined}
 */
export function answerSchemaOf({ given, method }, options) {
  // Such answers have no body, whatever the document says of it.
  if (method === 'HEAD') return undefined
  const successes = entriesOf(member(given, 'responses')).filter(([status]) => /^2(\d\d|XX)$/i.test(status))
  if (successes.length === 0) return undefined
  const lowering = new SchemaLowering({ ...options, direction: 'response' })
  /** @type {JsonValue[]} */
  const schemas = []
  for (const [status, response] of successes) {
    const content = entriesOf(member(options.references.object(response, 'a response'), 'content'))
    if (content.length === 0) {
      // Many documents state no content where there is some, and the call has had its effect.
      if (status !== '204' && status !== '205') return undefined
      schemas.push({ type: 'null' })
      continue
    }
    for (const [type, media] of content) {
      const schema = isObject(media) ? member(media, 'schema') : undefined
      // Text comes as text, and a schema of JSON says nothing of it.
      if (!isJsonType(type) || schema === undefined) return undefined
      schemas.push(lowering.lower(schema))
    }
  }
  const [first] = schemas
  if (schemas.length > 1) return { anyOf: schemas, ...lowering.definitions }
  if (isObject(first)) return { ...first, ...lowering.definitions }
  if (first === false) throw new LeftOut('has an answer that nothing satisfies')
  return undefined
}
