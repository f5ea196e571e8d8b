import { type JsonObject, type JsonValue, snapshot } from '../../json/lossless.ts'
import { isRecord, setOwn } from '../../json/plain.ts'
import type { JsonSchema } from '../../schema/spec.ts'

/** MCP knows structured content only as an object: any other output is told and sent as `{ value }` (api.md §6). */
export const isWrapped = (schema: JsonSchema): boolean => schema['type'] !== 'object'

/** The input schema of a tool as MCP takes it: an object at the root. */
export const inputSchema = (parameters: JsonSchema): JsonObject =>
  plainProperties({ ...(snapshot(parameters) as JsonObject), type: 'object' })

/** The output schema of a tool as MCP takes it; see `isWrapped`. */
export function outputSchema(schema: JsonSchema): JsonObject {
  const copy = snapshot(schema) as JsonObject
  if (!isWrapped(schema)) return plainProperties(copy)
  const { $schema, ...inner } = copy
  moveReferences(inner, '#/properties/value')
  return {
    ...($schema !== undefined && { $schema }),
    type: 'object',
    properties: { value: inner },
    required: ['value'],
    additionalProperties: false
  }
}

/** Clients refuse a whole list for a property whose schema is `true` or `false`, which JSON Schema allows. */
function plainProperties(schema: JsonObject): JsonObject {
  const { properties } = schema
  if (!isRecord(properties)) return schema
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === 'boolean') setOwn(properties, name, value ? {} : { not: {} })
  }
  return schema
}

/** Keywords whose value is data and not a schema. */
const dataKeywords = new Set(['const', 'enum', 'default', 'examples', 'example'])
/** Keywords whose members are schemas by names that anybody chose. */
const mapKeywords = new Set([
  'properties',
  'patternProperties',
  '$defs',
  'definitions',
  'dependentSchemas',
  'dependencies'
])

/**
 * Makes the references of a schema right for the place that it is moved to: those from the root of the document begin there. What has an
 * `$id` is a document of its own, within which they stay.
 */
function moveReferences(schema: JsonObject, to: string): void {
  const open: { value: JsonValue; isMap: boolean }[] = [{ value: schema, isMap: false }]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { value, isMap } = next
    if (Array.isArray(value)) for (const item of value) open.push({ value: item, isMap: false })
    if (!isRecord(value) || (!isMap && typeof value['$id'] === 'string')) continue
    for (const [key, item] of Object.entries(value)) {
      if (!isMap && key === '$ref' && typeof item === 'string' && /^#(\/|$)/.test(item)) {
        value[key] = to + item.slice(1)
      } else if (isMap || !dataKeywords.has(key)) {
        open.push({ value: item, isMap: !isMap && mapKeywords.has(key) })
      }
    }
  }
}
