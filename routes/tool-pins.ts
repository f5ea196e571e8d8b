import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { reachScope } from './reach.ts'
import { errorResponses } from './schemas/error-responses.ts'
import { ScopeId } from './schemas/ids.ts'
import type { TypeBoxProvider } from './schemas/type-provider.ts'

/** Releasing tools whose definitions have changed since they were first seen (api.md §6, reliability.md §1.3). */
export async function toolPinRoutes(fastify: FastifyInstance): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()

  app.post(
    '/tools/:name/accept',
    {
      config: { action: 'tools:accept' },
      schema: {
        summary: 'Release a quarantined tool as it is now',
        params: Type.Object({ name: Type.String({ maxLength: 64 }) }),
        querystring: Type.Object(
          {
            scope: Type.Optional({
              ...ScopeId,
              description: 'Where it is registered; the scope of the token if absent.'
            })
          },
          { additionalProperties: false }
        ),
        body: Type.Optional(
          Type.Object(
            {
              hash: Type.Optional(
                Type.String({
                  maxLength: 64,
                  description: 'Of the definition that was looked at: another one is not released.'
                })
              )
            },
            { additionalProperties: false }
          )
        ),
        response: { 204: Type.Null(), ...errorResponses('UNKNOWN_SCOPE', 'NOT_FOUND', 'APPROVAL_STALE') }
      }
    },
    async ({ principal, params, query, body }, reply) => {
      const scope = reachScope(app, principal, query.scope)
      await app.definitionPins.accept(scope.id, params.name, body?.hash)
      return reply.code(204).send(null)
    }
  )
}
