import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { EventLog } from '../../server/event-log/event-log.ts'

declare module 'fastify' {
  interface FastifyInstance {
    eventLog: EventLog
  }
}

/** Takes the log that the composition root opened, says in the readiness when it cannot store, and closes it last of all. */
export const eventLog = fp(
  async (fastify: FastifyInstance, { log }: { log: EventLog }) => {
    fastify.decorate('eventLog', log)
    fastify.health.addCheck('event-log', () => (log.state === 'open' ? undefined : 'the event log cannot store'))
    fastify.addHook('onClose', () => log.close())
  },
  { name: 'event-log', fastify: '5.x', dependencies: ['health-state'] }
)
