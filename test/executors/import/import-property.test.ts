import fc from 'fast-check'
import { afterAll, expect, it } from 'vitest'
import { importOpenApi } from '../../../server/executors/import/import-openapi.ts'
import { mapRequest } from '../../../server/executors/import/request-mapping.ts'
import { wireTool } from '../../../server/executors/wire-tool.ts'
import { WireSchemas } from '../../../server/schema/ajv-validator.ts'
import { httpExecutor } from '../../helpers/http-tools.ts'

const schemas = new WireSchemas()
afterAll(() => schemas.close())

const name = fc.oneof(
  fc.constantFrom('id', 'a', 'b', '__proto__', 'constructor', 'body', 'x y', 'ü'),
  fc.string({ minLength: 1, maxLength: 8 })
)
const { schema } = fc.letrec((tie) => ({
  schema: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    fc.record(
      {
        type: fc.constantFrom('string', 'integer', 'number', 'boolean'),
        nullable: fc.boolean(),
        enum: fc.array(fc.oneof(fc.string(), fc.integer()), { minLength: 1, maxLength: 3 }),
        minimum: fc.integer(),
        exclusiveMinimum: fc.boolean(),
        pattern: fc.constantFrom('^a+$', '^(?!x)', '('),
        format: fc.constantFrom('int64', 'date-time', 'nonsense'),
        'x-own': fc.string(),
        default: fc.oneof(fc.string(), fc.constant(null))
      },
      { requiredKeys: [] }
    ),
    fc.record({
      $ref: fc.constantFrom('#/components/schemas/A', '#/components/schemas/B', '#/components/schemas/a~1b', '#/nope')
    }),
    fc.record({ type: fc.constant('array'), items: tie('schema'), uniqueItems: fc.boolean() }),
    fc.record(
      {
        type: fc.constant('object'),
        properties: fc.dictionary(name, tie('schema'), { maxKeys: 3 }),
        required: fc.array(name, { maxLength: 2 }).map((names) => [...new Set(names)]),
        additionalProperties: fc.oneof(fc.boolean(), tie('schema')),
        nullable: fc.boolean(),
        readOnly: fc.boolean()
      },
      { requiredKeys: ['type'] }
    ),
    fc.record({ oneOf: fc.array(tie('schema'), { minLength: 1, maxLength: 3 }), nullable: fc.boolean() })
  )
}))
const media = fc.constantFrom('application/json', 'application/x+json', 'text/plain', '*/*')
const operation = fc.record(
  {
    operationId: name,
    parameters: fc.array(
      fc.record(
        {
          name,
          in: fc.constantFrom('query', 'header', 'cookie', 'path'),
          required: fc.boolean(),
          schema,
          style: fc.constantFrom('form', 'simple', 'deepObject'),
          explode: fc.boolean()
        },
        { requiredKeys: ['name', 'in', 'schema'] }
      ),
      { maxLength: 3 }
    ),
    requestBody: fc.record({
      required: fc.boolean(),
      content: fc.dictionary(media, fc.record({ schema }), { minKeys: 1, maxKeys: 2 })
    }),
    responses: fc.dictionary(
      fc.constantFrom('200', '204', '2XX', 'default'),
      fc.record({ content: fc.dictionary(media, fc.record({ schema }), { maxKeys: 2 }) })
    )
  },
  { requiredKeys: ['responses'] }
)
const documents = fc.record({
  openapi: fc.constantFrom('3.0.3', '3.1.0'),
  servers: fc.constant([{ url: 'https://api.example/v1' }]),
  paths: fc.dictionary(
    fc.constantFrom('/a', '/b/{id}', '/c/{a}-{b}', '/d'),
    fc.dictionary(fc.constantFrom('get', 'put', 'post', 'delete'), operation, { minKeys: 1, maxKeys: 3 }),
    { minKeys: 1 }
  ),
  components: fc.record({ schemas: fc.record({ A: schema, B: schema, 'a/b': schema }) })
})

it('every tool that is imported can be registered, under a name of its own, and maps what its schema admits', async () => {
  let tools = 0
  await fc.assert(
    fc.asyncProperty(documents, async (document) => {
      const report = await importOpenApi(
        JSON.stringify({ document }),
        {},
        { schemas, assertAllowed: () => {}, isAuthFor: () => false, maxMs: 60_000 }
      )
      const operations = Object.values(document.paths).flatMap((item) => Object.keys(item)).length
      expect(report.tools.length + report.skipped.length).toBe(operations)
      expect(new Set(report.tools.map(({ tool }) => tool.name)).size).toBe(report.tools.length)
      for (const { tool, request } of report.tools) {
        tools += 1
        const definition = await wireTool(tool, httpExecutor('https://api.example'), schemas)
        expect(definition.name).toMatch(/^[A-Za-z0-9_-]{1,64}$/)
        // Every argument has its place in the request.
        const places = [
          ...request.parameters.map(({ argument }) => argument),
          ...(request.body === undefined ? [] : [request.body.argument])
        ]
        expect(places.toSorted()).toEqual(Object.keys(tool.parameters['properties'] as object).toSorted())
        const args = Object.fromEntries(places.map((place) => [place, 'v']))
        expect(mapRequest(request, args).path).toMatch(/^\/[\x21-\x7e]*$/)
      }
    }),
    { numRuns: 20 }
  )
  expect(tools).toBeGreaterThan(5)
})
