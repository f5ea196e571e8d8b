import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { RequestError } from '../server/errors.ts'
import type { ToolDefinition } from '../server/tools/definition.ts'
import { reachScope } from './reach.ts'
import { errorResponses } from './schemas/error-responses.ts'
import { ScopeId } from './schemas/ids.ts'
import type { TypeBoxProvider } from './schemas/type-provider.ts'

const JsonSchema = Type.Record(Type.String(), Type.Any())

const Tool = Type.Object({
  name: Type.String(),
  description: Type.String(),
  parameters: JsonSchema,
  output: JsonSchema,
  origin: Type.Literal('plugin', { description: 'How it came here.' }),
  timeoutMs: Type.Optional(Type.Number()),
  idempotent: Type.Optional(Type.Boolean()),
  concurrency: Type.Unsafe<'exclusive' | 'by-arguments'>({
    type: 'string',
    enum: ['exclusive', 'by-arguments'],
    description: 'Whether calls of it may overlap others.'
  })
})

const ToolSchema = Type.Object({ name: Type.String(), description: Type.String(), parameters: JsonSchema })

const scopeQuery = Type.Object({ scope: Type.Optional(ScopeId) }, { additionalProperties: false })

const describe = (tool: ToolDefinition) => ({
  name: tool.name,
  description: tool.description,
  parameters: tool.parameters,
  output: tool.output.schema,
  origin: 'plugin' as const,
  ...(tool.timeoutMs === undefined ? {} : { timeoutMs: tool.timeoutMs }),
  ...(tool.idempotent === undefined ? {} : { idempotent: tool.idempotent }),
  concurrency: tool.isConcurrencySafe === undefined ? ('exclusive' as const) : ('by-arguments' as const)
})

/** What a scope can call, as people and programs look at it (api.md §3). */
export async function toolRoutes(fastify: FastifyInstance): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()

  app.get(
    '/tools',
    {
      config: { action: 'catalogue:read' },
      schema: {
        summary: 'The tools that a scope sees',
        querystring: scopeQuery,
        response: { 200: Type.Object({ tools: Type.Array(Tool) }), ...errorResponses('UNKNOWN_SCOPE') }
      }
    },
    async ({ principal, query }) => ({
      tools: app.registry.view(reachScope(app, principal, query.scope)).map(describe)
    })
  )

  app.get(
    '/tools/:name',
    {
      config: { action: 'catalogue:read' },
      schema: {
        summary: 'One tool of a scope',
        params: Type.Object({ name: Type.String() }),
        querystring: scopeQuery,
        response: { 200: Tool, ...errorResponses('UNKNOWN_SCOPE', 'NOT_FOUND') }
      }
    },
    async ({ principal, query, params }) => {
      const tool = app.registry.lookup(params.name, reachScope(app, principal, query.scope))
      if (tool === undefined) throw new RequestError('NOT_FOUND')
      return describe(tool)
    }
  )

  app.get(
    '/scopes/:scope/schemas',
    {
      config: { action: 'catalogue:read' },
      schema: {
        summary: 'The catalogue of a scope: what a model may know of its tools',
        params: Type.Object({ scope: ScopeId }),
        response: { 200: Type.Object({ schemas: Type.Array(ToolSchema) }), ...errorResponses('UNKNOWN_SCOPE') }
      }
    },
    async ({ principal, params }) => ({ schemas: app.registry.schemas(reachScope(app, principal, params.scope)) })
  )
}
