import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

declare module 'fastify' {
  interface FastifyInstance {
    health: HealthState
  }
}

/** Why the server should get no requests now: nothing when it is ready, else a phrase. It is seen without a token. */
export type ReadinessCheck = () => string | undefined

/** Whether the server is ready, as the sum of what its parts say. */
export class HealthState {
  readonly #checks = new Map<string, ReadinessCheck>()

  /** Adds a part's word; the returned undo takes it back. */
  addCheck(name: string, check: ReadinessCheck): () => void {
    if (this.#checks.has(name)) throw new Error(`There is a readiness check named ${JSON.stringify(name)} already.`)
    this.#checks.set(name, check)
    return () => void this.#checks.delete(name)
  }

  /** The phrases of the parts that are not ready, by their names; empty when all are. */
  reasons(): Record<string, string> {
    const reasons: Record<string, string> = {}
    for (const [name, check] of this.#checks) {
      const reason = check()
      if (reason !== undefined) reasons[name] = reason
    }
    return reasons
  }
}

/** Decorates the server with `health`, where the other plugins report. */
export const healthState = fp(
  async (fastify: FastifyInstance) => {
    fastify.decorate('health', new HealthState())
  },
  { name: 'health-state', fastify: '5.x' }
)
