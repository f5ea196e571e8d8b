import swagger from '@fastify/swagger'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

/**
 * Describes the routes as OpenAPI 3.1, from the schemas they validate with. Registered before any route and only by
 * `scripts/openapi.js`: the running server does not carry it.
 */
export const openapi = fp(
  async (fastify: FastifyInstance, { version }: { version: string }) => {
    await fastify.register(swagger, {
      openapi: {
        openapi: '3.1.0',
        info: {
          title: 'Toolwright',
          version,
          description:
            'A tool-execution server for AI agents. Times are epoch milliseconds, durations end in `Ms`, sizes in `Bytes`.',
          license: { name: 'MIT', identifier: 'MIT' }
        },
        servers: [{ url: 'http://127.0.0.1:7410' }],
        security: [{ bearer: [] }],
        components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } } }
      },
      transform: ({ schema, url, route }) => ({
        url,
        schema: { operationId: operationId(String(route.method), url), ...schema }
      })
    })
  },
  { name: 'openapi', fastify: '5.x' }
)

/** `GET /scopes/:scope/schemas` as `getScopesByScopeSchemas`. */
function operationId(method: string, url: string): string {
  const words = url.split('/').map((part) => part.replace(/^:/, 'by-'))
  return `${method.toLowerCase()} ${words.join(' ')}`.replaceAll(/[^A-Za-z]+(\w)/g, (_match, letter: string) =>
    letter.toUpperCase()
  )
}
