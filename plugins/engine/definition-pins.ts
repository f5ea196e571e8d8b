import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { DefinitionPins } from '../../server/registrations/definition-pins.ts'

declare module 'fastify' {
  interface FastifyInstance {
    definitionPins: DefinitionPins
  }
}

/** What foreign tools were when they were first seen (reliability.md §1.3): for all that bring such tools in. */
export const definitionPins = fp(
  async (fastify: FastifyInstance) => {
    const pins = await DefinitionPins.open({
      log: fastify.eventLog,
      now: () => Date.now(),
      warn: (message, details) => fastify.log.warn(details, message)
    })
    fastify.decorate('definitionPins', pins)
  },
  { name: 'definition-pins', fastify: '5.x', dependencies: ['event-log'] }
)
