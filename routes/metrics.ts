import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import type { Config } from '../server/config/schema.ts'
import { RequestError } from '../server/errors.ts'
import { errorResponses } from './schemas/error-responses.ts'
import type { TypeBoxProvider } from './schemas/type-provider.ts'

/** What a Prometheus scrapes (docs/metrics.md). It tells of the whole server, so its reader needs the global scope (api.md §9). */
export async function metricsRoutes(fastify: FastifyInstance, { metrics }: Pick<Config, 'metrics'>): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()
  app.get(
    '/metrics',
    {
      config: metrics.public ? { isPublic: true } : { action: 'metrics:read' },
      schema: {
        summary: 'Metrics of the server, as Prometheus reads them',
        ...(metrics.public ? { security: [] } : {}),
        produces: ['text/plain'],
        response: { 200: Type.String(), ...errorResponses('FORBIDDEN') }
      }
    },
    async ({ principal }, reply) => {
      if (!metrics.public && principal.scope !== 'global') throw new RequestError('FORBIDDEN')
      void reply.type(app.metrics.contentType)
      return app.metrics.text()
    }
  )
}
