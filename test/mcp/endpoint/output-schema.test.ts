import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv-provider.js'
import { ListToolsResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { expect, it } from 'vitest'
import { inputSchema, isWrapped, outputSchema } from '../../../server/mcp/endpoint/output-schema.ts'
import type { JsonSchema } from '../../../server/schema/spec.ts'

const accepts = (schema: JsonSchema, value: unknown): boolean =>
  new AjvJsonSchemaValidator().getValidator(schema as never)(value).valid

it.each<[JsonSchema, unknown[], unknown[]]>([
  [{ type: 'string' }, ['a'], [1, null]],
  [{}, [null, {}, 1], []],
  [{ anyOf: [{ type: 'object' }, { type: 'null' }] }, [null, {}], ['a']],
  // References from the root of the document, the root itself among them.
  [{ $ref: '#/$defs/n', $defs: { n: { type: 'integer' } } }, [1], ['a']],
  [{ type: 'array', items: { anyOf: [{ type: 'string' }, { $ref: '#' }] } }, [['a', [['b']]], []], [[1], [[[1]]]]],
  [
    { type: 'array', items: { $ref: '#/definitions/a~1b' }, definitions: { 'a/b': { type: 'boolean' } } },
    [[true]],
    [[1]]
  ],
  // What only looks like one.
  [{ enum: [{ $ref: '#/x' }] }, [{ $ref: '#/x' }], [{ $ref: '#/properties/value/x' }]],
  [{ const: { $ref: '#' } }, [{ $ref: '#' }], [1]],
  [
    {
      type: 'array',
      items: { type: 'object', properties: { $ref: { type: 'string' }, enum: { $ref: '#/$defs/n' } } },
      $defs: { n: { type: 'integer' } }
    },
    [[{ $ref: '#/x', enum: 1 }]],
    [[{ enum: 'a' }], [{ $ref: 1 }]]
  ]
])('%j is told as that of an object with a value', (schema, good, bad) => {
  const before = JSON.stringify(schema)
  const told = outputSchema(schema)
  expect(isWrapped(schema)).toBe(true)
  expect(told['type']).toBe('object')
  for (const value of good) expect(accepts(told, { value }), JSON.stringify(value)).toBe(true)
  for (const value of bad) expect(accepts(told, { value }), JSON.stringify(value)).toBe(false)
  expect(accepts(told, {})).toBe(false)
  expect(JSON.stringify(schema)).toBe(before)
})

it('an object stays as it is, but for what clients refuse', () => {
  const schema = { type: 'object', properties: { a: true, b: false, __proto__: null, c: { type: 'string' } } }
  const told = outputSchema(
    JSON.parse('{"type":"object","properties":{"a":true,"b":false,"__proto__":true,"c":{"$ref":"#/x"}}}')
  )
  expect(isWrapped(schema)).toBe(false)
  expect(JSON.stringify(told)).toBe(
    '{"type":"object","properties":{"a":{},"b":{"not":{}},"__proto__":{},"c":{"$ref":"#/x"}}}'
  )
  const tool = { name: 'x', inputSchema: inputSchema({ properties: { a: true } }), outputSchema: told }
  expect(ListToolsResultSchema.safeParse({ tools: [tool] }).success).toBe(true)
})

it('a schema of any depth is walked without recursion', () => {
  let schema: JsonSchema = { $ref: '#' }
  for (let level = 0; level < 3_000; level += 1) schema = { not: schema }
  expect(() => outputSchema(schema)).not.toThrow()
})
