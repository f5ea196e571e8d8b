import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../../server/config/schema.ts'
import { RequestError } from '../../server/errors.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The route starts work, so it answers 503 SHUTTING_DOWN from the moment the shutdown begins. */
    startsWork?: true
  }
  interface FastifyInstance {
    shutdown: Shutdown
  }
}

/**
 * Brings a part's work to an end: stops taking new work at once, lets running work finish, aborts it when `deadline` fires, and
 * resolves when all is quiet.
 */
export type DrainStep = (deadline: AbortSignal) => Promise<void>

export class Shutdown {
  readonly #steps: DrainStep[] = []
  readonly #begun = new AbortController()

  constructor() {
    // Every long poll listens; from the eleventh on Node would warn of a leak.
    setMaxListeners(0, this.#begun.signal)
  }

  /** Fires when the shutdown begins; streams and long polls end on it. */
  get begun(): AbortSignal {
    return this.#begun.signal
  }

  get isDraining(): boolean {
    return this.#begun.signal.aborted
  }

  /** All steps run side by side, after `preStopMs`. */
  addDrainStep(step: DrainStep): void {
    this.#steps.push(step)
  }

  /** Drains; resolves when every step has, or `killMs` after the deadline, with what failed. */
  async drain({ preStopMs, drainMs, killMs }: Config['drain']): Promise<unknown[]> {
    this.#begun.abort()
    await sleep(preStopMs)
    const finished = new AbortController()
    const deadline = new AbortController()
    const timer = setTimeout(() => deadline.abort(new Error('The server is shutting down.')), drainMs)
    const settled = Promise.allSettled(this.#steps.map(async (step) => step(deadline.signal)))
    const late = sleep(drainMs + killMs, undefined, { signal: finished.signal }).then(
      () => [new Error('Work did not end in time.')],
      () => []
    )
    const results = settled.then((all) =>
      all.filter(({ status }) => status === 'rejected').map((result) => (result as PromiseRejectedResult).reason)
    )
    try {
      return await Promise.race([results, late])
    } finally {
      finished.abort()
      clearTimeout(timer)
    }
  }
}

/**
 * The graceful end (reliability.md §3.4): not ready and no new work at once; running work is drained before the server stops
 * listening; then idle connections are closed as they become so, and all at the deadline. Register it before the plugins whose
 * `preClose` must come after the drain, and before anything that is used while draining.
 */
export const shutdown = fp(
  async (fastify: FastifyInstance, { drain }: { drain: Config['drain'] }) => {
    const state = new Shutdown()
    const timers: NodeJS.Timeout[] = []
    fastify.decorate('shutdown', state)
    fastify.health.addCheck('shutdown', () => (state.isDraining ? 'shutting down' : undefined))

    fastify.addHook('onRequest', (request, _reply, done) => {
      if (state.isDraining && request.routeOptions.config.startsWork) throw new RequestError('SHUTTING_DOWN')
      done()
    })

    fastify.addHook('preClose', async () => {
      for (const failure of await state.drain(drain)) fastify.log.error({ err: failure }, 'the drain failed')
      // Fastify closes idle connections once; one that was busy then would be waited for until its keep-alive time is over.
      timers.push(setInterval(() => fastify.server.closeIdleConnections(), 100))
      timers.push(setTimeout(() => fastify.server.closeAllConnections(), drain.killMs))
    })

    fastify.addHook('onClose', async () => {
      for (const timer of timers) clearTimeout(timer)
    })
  },
  { name: 'shutdown', fastify: '5.x', dependencies: ['health-state'] }
)
