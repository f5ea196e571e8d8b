import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { WireSchemas } from '../../server/schema/ajv-validator.ts'

declare module '../../server/services.ts' {
  interface Services {
    /** Compiles JSON Schemas that somebody else wrote, for definitions whose `validateArguments` and `validateOutput` stand on them. */
    wireSchemas: WireSchemas
  }
}

/** The validators of schemas from outside, as a service (api.md §3). Their thread starts with the first one. */
export const wireSchemas = fp(
  async (fastify: FastifyInstance) => {
    const schemas = new WireSchemas()
    fastify.decorate('wireSchemas', schemas)
    fastify.addHook('onClose', () => schemas.close())
  },
  { name: 'wire-schemas', fastify: '5.x' }
)
