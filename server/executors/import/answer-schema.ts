import { isJsonObject, type JsonObject, type JsonValue } from '../../json/lossless.ts'
import { type LoweringOptions, SchemaLowering } from './lower-schema.ts'
import type { Operation } from './operations.ts'
import { isJsonType } from './parameters.ts'
import { entriesOf, LeftOut, member } from './references.ts'

/**
 * The schema of what an operation answers when it succeeds, if the document says it for each success: JSON of a schema, or nothing by its
 * status, which is `null`. Undefined when it says nothing of use. Throws `LeftOut` for schemas that cannot be said in JSON Schema 2020-12.
 */
export function answerSchemaOf(
  { given, method }: Operation,
  options: Omit<LoweringOptions, 'direction'>
): JsonObject | undefined {
  // Such answers have no body, whatever the document says of it.
  if (method === 'HEAD') return undefined
  const successes = entriesOf(member(given, 'responses')).filter(([status]) => /^2(\d\d|XX)$/i.test(status))
  if (successes.length === 0) return undefined
  const lowering = new SchemaLowering({ ...options, direction: 'response' })
  const schemas: JsonValue[] = []
  for (const [status, response] of successes) {
    const content = entriesOf(member(options.references.object(response, 'a response'), 'content'))
    if (content.length === 0) {
      // Many documents state no content where there is some, and the call has had its effect.
      if (status !== '204' && status !== '205') return undefined
      schemas.push({ type: 'null' })
      continue
    }
    for (const [type, media] of content) {
      const schema = isJsonObject(media) ? member(media, 'schema') : undefined
      // Text comes as text, and a schema of JSON says nothing of it.
      if (!isJsonType(type) || schema === undefined) return undefined
      schemas.push(lowering.lower(schema))
    }
  }
  const [first] = schemas
  if (schemas.length > 1) return { anyOf: schemas, ...lowering.definitions }
  if (isJsonObject(first)) return { ...first, ...lowering.definitions }
  if (first === false) throw new LeftOut('has an answer that nothing satisfies')
  return undefined
}
