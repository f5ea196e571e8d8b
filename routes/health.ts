import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import type { TypeBoxProvider } from './schemas/type-provider.ts'

const Readiness = Type.Object({
  status: Type.Union([Type.Literal('ready'), Type.Literal('not ready')]),
  reasons: Type.Record(Type.String(), Type.String(), { description: 'What is not ready, by part.' })
})

/** Liveness and readiness, for probes: without a token, and under whatever name a cluster calls us (api.md §9). */
export async function healthRoutes(fastify: FastifyInstance): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()

  app.get(
    '/health/live',
    {
      config: { isPublic: true },
      schema: {
        summary: 'Whether the process answers',
        security: [],
        response: { 200: Type.Object({ status: Type.Literal('live') }) }
      }
    },
    async () => ({ status: 'live' as const })
  )

  app.get(
    '/health/ready',
    {
      config: { isPublic: true },
      schema: {
        summary: 'Whether the server should get requests',
        security: [],
        response: { 200: Readiness, 503: Readiness }
      }
    },
    async (_request, reply) => {
      const reasons = app.health.reasons()
      if (Object.keys(reasons).length === 0) return { status: 'ready' as const, reasons }
      return reply.code(503).send({ status: 'not ready' as const, reasons })
    }
  )
}
