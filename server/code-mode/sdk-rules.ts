import { ownValue } from '../json/plain.ts'
import { stringifyJson } from '../json/serialize.ts'
import { isJsonObject, type JsonObject, type JsonValue } from '../json/lossless.ts'

/** Keywords whose value is told as it is, by the words for it. */
const bounds = new Map([
  ['minimum', 'minimum'],
  ['exclusiveMinimum', 'more than'],
  ['maximum', 'maximum'],
  ['exclusiveMaximum', 'less than'],
  ['multipleOf', 'multiple of'],
  ['minLength', 'minimum length'],
  ['maxLength', 'maximum length'],
  ['pattern', 'pattern'],
  ['format', 'format'],
  ['contentEncoding', 'encoding'],
  ['contentMediaType', 'media type'],
  ['minItems', 'minimum items'],
  ['maxItems', 'maximum items'],
  ['minContains', 'minimum matching items'],
  ['maxContains', 'maximum matching items'],
  ['minProperties', 'minimum members'],
  ['maxProperties', 'maximum members']
])

/** Keywords that are only named: neither a type nor a short text can say them. */
const unsaid = new Set([
  'patternProperties',
  'propertyNames',
  'dependencies',
  'dependentRequired',
  'dependentSchemas',
  'unevaluatedProperties',
  'contains',
  'unevaluatedItems',
  'not',
  'if',
  '$dynamicRef',
  '$recursiveRef'
])

const longestValue = 200

/**
 * What a schema demands beyond the form of the value, for a comment (code-mode.md §4.1): of the node, of an array's items and
 * of the branches right below. Undefined if there is nothing; a schema of the supported subset has nothing.
 */
export function rulesOf(schema: JsonObject): string | undefined {
  let rules = own(schema)
  const items = ownValue(schema, 'items') as JsonValue | undefined
  if (isJsonObject(items)) rules = rules.concat(own(items).map((rule) => `each item: ${rule}`))
  for (const keyword of ['allOf', 'anyOf', 'oneOf']) {
    const branches = ownValue(schema, keyword)
    if (Array.isArray(branches)) rules = rules.concat(branches.filter(isJsonObject).flatMap(own))
  }
  return rules.length === 0 ? undefined : [...new Set(rules)].join(', ')
}

function own(schema: JsonObject): string[] {
  const rules: string[] = []
  const others: string[] = []
  for (const keyword of Object.keys(schema)) {
    const value = schema[keyword]
    const words = bounds.get(keyword)
    if (words !== undefined && (typeof value === 'string' || typeof value === 'number')) {
      const text = stringifyJson(value)
      rules.push(text.length > longestValue ? `${words} as the schema says` : `${words} ${text}`)
    } else if (keyword === 'uniqueItems' && value === true) rules.push('unique items')
    else if (unsaid.has(keyword)) others.push(keyword)
  }
  if (others.length > 0) rules.push(`further rules (${others.join(', ')})`)
  return rules
}
