import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import type { ScopeReach } from '../server/auth/principal.ts'
import { RequestError } from '../server/errors.ts'
import { errorResponses } from './schemas/error-responses.ts'
import { ScopeId } from './schemas/ids.ts'
import type { TypeBoxProvider } from './schemas/type-provider.ts'

/** Tickets, with which a browser opens its WebSocket (api.md §5). */
export async function ticketRoutes(fastify: FastifyInstance, { scopes }: { scopes: ScopeReach }): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()

  app.post(
    '/tickets',
    {
      config: { action: 'catalogue:read' },
      schema: {
        summary: 'Make a ticket for one WebSocket',
        description: 'Good for one upgrade, offered as the subprotocol `ticket.<ticket>` beside `toolwright.v1`.',
        body: Type.Optional(
          Type.Object(
            {
              scope: Type.Optional({
                ...ScopeId,
                description: 'What the socket may see; the scope of the token if absent.'
              })
            },
            { additionalProperties: false }
          )
        ),
        response: {
          201: Type.Object({ ticket: Type.String(), scope: ScopeId, expiresInMs: Type.Integer() }),
          ...errorResponses('UNKNOWN_SCOPE', 'RATE_LIMITED')
        }
      }
    },
    async (request, reply) => {
      const { principal } = request
      const scope = request.body?.scope ?? principal.scope
      if (scope !== principal.scope && !scopes.isWithin(scope, principal.scope)) throw new RequestError('UNKNOWN_SCOPE')
      return reply.code(201).send({ ...app.tickets.issue({ ...principal, scope }), scope })
    }
  )
}
