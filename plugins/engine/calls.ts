import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../../server/config/schema.ts'
import type { CallEngine } from '../../server/invocations/call-run.ts'
import { Invocations } from '../../server/invocations/invoke.ts'
import { recover, repairSession } from '../../server/invocations/recovery.ts'
import { Sessions } from '../../server/sessions/sessions.ts'

declare module 'fastify' {
  interface FastifyInstance {
    sessions: Sessions
    invocations: Invocations
    callEngine: CallEngine
  }
}

/** Sessions and calls. Start-up closes what the last server left dangling; the shutdown drains, then aborts what is left. */
export const calls = fp(
  async (fastify: FastifyInstance) => {
    const { eventLog, scopes, pipeline, liveEvents } = fastify
    const engine: CallEngine = { pipeline, publish: (type, event) => liveEvents.publish(type, event) }
    const invocations = new Invocations(engine, eventLog)
    fastify.decorate(
      'sessions',
      new Sessions({ log: eventLog, tree: scopes, repair: (id) => repairSession(eventLog, id) })
    )
    fastify.decorate('invocations', invocations)
    fastify.decorate('callEngine', engine)

    const repaired = await recover(eventLog)
    if (repaired > 0)
      fastify.log.warn({ sessions: repaired }, 'the last server left sessions open; they are closed now')

    fastify.shutdown.addDrainStep(async (deadline) => {
      invocations.refuseNew()
      deadline.addEventListener('abort', () => invocations.abortAll(deadline.reason as Error), { once: true })
      await invocations.whenQuiet()
    })
  },
  { name: 'calls', fastify: '5.x', dependencies: ['event-log', 'events', 'shutdown'] }
)
