import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../../server/config/schema.ts'
import { LimitStore } from '../../server/invocations/limits/limit-store.ts'

declare module 'fastify' {
  interface FastifyInstance {
    limitStore: LimitStore
  }
}

/**
 * The limits that clients set, and what was used of those that count over time, outlive the process (docs/limits.md). Comes after the
 * registrations, whose scopes they belong to.
 */
export const limits = fp(
  async (fastify: FastifyInstance, { limits: { storeMs } }: Pick<Config, 'limits'>) => {
    const { eventLog: log, scopes: tree, invocations, registrations } = fastify
    const { admission } = invocations.parts
    const store = new LimitStore({
      log,
      tree,
      meters: admission.meters,
      inTurn: (change) => registrations.inTurn(change),
      wall: () => Date.now(),
      now: () => performance.now(),
      onChange: () => admission.letIn(),
      warn: (message, details) => fastify.log.warn(details, message)
    })
    await store.restore()
    fastify.decorate('limitStore', store)

    // A log that is in trouble says so itself.
    const flush = (): Promise<void> => store.flush().catch(() => undefined)
    const timer = setInterval(() => void flush(), storeMs).unref()
    fastify.addHook('onClose', async () => {
      clearInterval(timer)
      await flush()
    })
  },
  { name: 'limits', fastify: '5.x', dependencies: ['event-log', 'calls', 'registrations'] }
)
