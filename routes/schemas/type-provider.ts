import type { Static, TSchema } from '@sinclair/typebox'
import type { FastifyTypeProvider } from 'fastify'

/** Makes the TypeBox schemas of a route the types of its request and reply. */
export interface TypeBoxProvider extends FastifyTypeProvider {
  validator: this['schema'] extends TSchema ? Static<this['schema']> : unknown
  serializer: this['schema'] extends TSchema ? Static<this['schema']> : unknown
}
