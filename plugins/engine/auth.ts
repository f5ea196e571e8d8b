import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { checkEdge, type Edge, unauthenticated } from '../../server/auth/edge.ts'
import { type Action, mayDo, type Principal } from '../../server/auth/principal.ts'
import type { AccessTokens } from '../../server/auth/tokens.ts'
import type { Tickets } from '../../server/auth/tickets.ts'
import { RequestError } from '../../server/errors.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What a caller of the route must be granted (`server/auth/principal.ts`). Every route states it, or that it is public. */
    action?: Action
    /** The route answers anybody, without a look at Host, Origin or token: `/health/*` alone. */
    isPublic?: true
  }
  interface FastifyRequest {
    /** Who is calling; set before any route of ours runs, except the public ones. */
    principal: Principal
  }
  interface FastifyInstance {
    tokens: AccessTokens
    tickets: Tickets
  }
}

/**
 * Guards the edge: `checkEdge` runs for every request, also for unknown paths, wrong methods and WebSocket upgrades, which
 * come through the same hook. A route that states no `action` does not register, so none can be open by oversight.
 * Registered before anything that adds a route.
 */
export const auth = fp(
  async (fastify: FastifyInstance, edge: Edge) => {
    fastify.decorate('tokens', edge.tokens)
    fastify.decorate('tickets', edge.tickets)
    fastify.decorateRequest('principal', null as unknown as Principal)

    fastify.addHook('onRoute', ({ url, method, config }) => {
      if (config?.action === undefined && config?.isPublic !== true) {
        throw new Error(`The route ${String(method)} ${url} states neither an action nor that it is public.`)
      }
    })

    // A failed write is tried again with the next, and a log that is in trouble says so itself.
    const writeUses = (): Promise<void> => edge.tokens.writeUses().catch(() => undefined)
    const timer = setInterval(() => void writeUses(), 60_000).unref()
    fastify.addHook('onClose', async () => {
      clearInterval(timer)
      await writeUses()
    })

    fastify.addHook('onRequest', (request, _reply, done) => {
      const { action, isPublic } = request.routeOptions.config
      if (!isPublic) {
        request.principal = checkEdge(request.raw, edge)
        if (action !== undefined && !mayDo(request.principal, action)) throw new RequestError('FORBIDDEN')
      }
      done()
    })

    // A body may take its time: a token that ended meanwhile does nothing more (reliability.md S28).
    fastify.addHook('preValidation', ({ principal }, _reply, done) => {
      if (principal !== null && !edge.tokens.isLive(principal)) throw unauthenticated()
      done()
    })
  },
  { name: 'auth', fastify: '5.x' }
)
