import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { scopeLimits } from '../server/config/limit-settings.ts'
import type { Config } from '../server/config/schema.ts'
import { explainLimits } from '../server/invocations/limits/explain.ts'
import type { LimitName } from '../server/invocations/limits/refusal.ts'
import { reachScope } from './reach.ts'
import { errorResponses } from './schemas/error-responses.ts'
import { ScopeId } from './schemas/ids.ts'
import type { TypeBoxProvider } from './schemas/type-provider.ts'

const LimitInForce = Type.Object(
  {
    limit: Type.Unsafe<LimitName>({ type: 'string', description: 'Its name, as refusals have it.' }),
    value: Type.Integer(),
    perMs: Type.Optional(Type.Integer({ description: 'Of a rate: `value` requests in so many milliseconds.' })),
    burst: Type.Optional(Type.Integer({ description: 'Of a rate: requests at once; as many as `value` if absent.' })),
    scope: Type.Optional(Type.String({ description: 'Absent where it is out of the reach of the token.' })),
    tool: Type.Optional(Type.String()),
    source: Type.Union([Type.Literal('configuration'), Type.Literal('request')]),
    used: Type.Optional(Type.Number({ description: 'How much of it is in use; absent where it is others’ use too.' }))
  },
  { description: 'A limit in force.' }
)

/** What admission goes by, and changing it for a scope (api.md §3, §8; docs/limits.md). */
export async function limitRoutes(fastify: FastifyInstance, { calls }: Pick<Config, 'calls'>): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()

  app.get(
    '/limits',
    {
      config: { action: 'catalogue:read' },
      schema: {
        summary:
          'The limits that a request in a scope has to pass, with where each comes from and how much of it is in use',
        querystring: Type.Object({ scope: Type.Optional(ScopeId) }, { additionalProperties: false }),
        response: {
          200: Type.Object({ scope: Type.String(), limits: Type.Array(LimitInForce) }),
          ...errorResponses('UNKNOWN_SCOPE')
        }
      }
    },
    async ({ principal, query }) => {
      const scope = reachScope(app, principal, query.scope)
      const asker = { scope, token: principal.tokenId, reach: principal.scope }
      const { admission } = app.invocations.parts
      return { scope: scope.id, limits: explainLimits(admission, calls, asker, performance.now()) }
    }
  )

  app.put(
    '/scopes/:scope/limits',
    {
      config: { action: 'scopes:write', startsWork: true },
      schema: {
        summary: 'Set the limits of a scope and all below it',
        description: [
          'In place of what was set here before. Each member goes before the configured one, so `{}` brings all of those back. It',
          'holds for requests from now on, and comes back after a restart.'
        ].join(' '),
        params: Type.Object({ scope: ScopeId }),
        body: scopeLimits,
        response: { 200: scopeLimits, ...errorResponses('UNKNOWN_SCOPE') }
      }
    },
    async ({ principal, params, body }) => {
      const scope = reachScope(app, principal, params.scope)
      await app.limitStore.set(scope, body)
      return body
    }
  )
}
