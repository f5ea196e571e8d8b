import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { EventBus } from '../../server/events/bus.ts'
import { FanOut } from '../../server/events/fan-out.ts'
import type { JsonValue } from '../../server/json/lossless.ts'
import type { StrikeOut } from '../../server/json/strike-out.ts'
import { EventViews } from '../../server/invocations/event-views.ts'

declare module 'fastify' {
  interface FastifyInstance {
    liveEvents: EventBus
    fanOut: FanOut
    eventViews: EventViews
  }
}

/** Live events, the cards of stored ones, and the subscriptions that carry both to clients (api.md §4, §5). */
export const events = fp(
  async (fastify: FastifyInstance, { strikeOut }: { strikeOut?: StrikeOut | undefined }) => {
    const { eventLog, scopes, registry } = fastify
    const bus = new EventBus((error, type) =>
      fastify.log.warn({ err: error, type }, 'a listener to live events failed')
    )
    const views = new EventViews({ log: eventLog, tree: scopes, registry })
    // Before the fan-out hears of a commit: it asks for the card.
    eventLog.onCommit((committed) => views.note(committed))
    const fanOut = new FanOut({
      log: eventLog,
      bus,
      viewOf: (event) => views.viewOf(event) as JsonValue | undefined,
      prepareViews: (page) => views.prepare(page),
      strikeOut
    })
    registry.onChange(() => bus.publish('tools/change', {}))
    fastify.decorate('liveEvents', bus)
    fastify.decorate('eventViews', views)
    fastify.decorate('fanOut', fanOut)
    fastify.addHook('onClose', async () => fanOut.close())
  },
  { name: 'events', fastify: '5.x', dependencies: ['event-log', 'tools'] }
)
