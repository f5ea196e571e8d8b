import type { JsonObject, JsonValue } from '../json/lossless.ts'

/**
 * Changes one subschema in place where ajv departs from JSON Schema, so that nothing is accepted and then ignored (core.md §3), and
 * an unknown keyword is no more than that (F41). Its children stay the same objects.
 */
export function adaptToAjv(schema: JsonObject, refuse: (keyword: string, text: string) => never): void {
  // ajv would make an asynchronous validator, whose promise is true of every value.
  delete schema['$async']
  // OpenAPI's keyword, which ajv knows, and throws at where it stands without a type.
  if (schema['nullable'] !== true || !Object.hasOwn(schema, 'type')) delete schema['nullable']
  if (hasProto(schema['dependencies'])) refuse('dependencies', 'may not name "__proto__"')
  // ajv passes over a member of this name among its rules for members, though not over the same name as a pattern.
  for (const [keyword, pattern] of [
    ['patternProperties', '(?:__proto__)'],
    ['properties', '^__proto__$']
  ] as const) {
    const rules = schema[keyword]
    if (hasProto(rules)) move(schema, rules, pattern)
  }
}

/** Moved, not copied: copies of copies, level by level, would fill the memory. */
function move(schema: JsonObject, from: JsonObject, to: string): void {
  const rule = from['__proto__']!
  delete from['__proto__']
  const patterns = (schema['patternProperties'] ??= {}) as JsonObject
  let pattern = to
  while (Object.hasOwn(patterns, pattern)) pattern = `(?:${pattern})`
  patterns[pattern] = rule
}

const hasProto = (map: JsonValue | undefined): map is JsonObject =>
  typeof map === 'object' && map !== null && Object.hasOwn(map, '__proto__')
