import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { namedScopes, type ScopeSettings } from '../../server/config/named-scopes.ts'
import type { Config } from '../../server/config/schema.ts'
import { type Clock, systemClock } from '../../server/registrations/idle-scopes.ts'
import { Registrations } from '../../server/registrations/registrations.ts'
import { isAgent } from './jobs.ts'

declare module 'fastify' {
  interface FastifyInstance {
    registrations: Registrations
  }
}

/**
 * What clients register of scopes (api.md §3). Comes after the plugins that make scopes of their own, as what is stored finds its place
 * among those.
 */
export const registrations = fp(
  async (
    fastify: FastifyInstance,
    { scopes: limits, clock = systemClock, ...settings }: Pick<Config, 'scopes'> & ScopeSettings & { clock?: Clock }
  ) => {
    const { eventLog: log, scopes: tree, registry, tools: root, callEngine, jobs, definitionPins } = fastify
    const { tokens, tickets, connections } = fastify
    const service = new Registrations({
      log,
      tree,
      registry,
      root,
      limits,
      clock,
      quiet: async (scope) => {
        await callEngine.calls.whenQuiet(({ session }) => session.scope.isWithin(scope))
        await jobs.whenQuiet((owner) => isAgent(owner) && owner.scope.isWithin(scope))
      },
      isBound: (id) =>
        [...tokens.list(), ...tickets.principals, ...connections.principals].some(({ scope }) => scope === id),
      named: namedScopes(settings),
      onErased: (ids) => void definitionPins.dropScopes(ids),
      warn: (message, details) => fastify.log.warn(details, message)
    })
    await service.restore()
    fastify.decorate('registrations', service)
    // Whatever is logged in a scope is a use of it.
    const stopListening = log.onCommit((events) => {
      for (const id of new Set(events.map(({ scope }) => scope))) {
        const scope = tree.get(id)
        if (scope !== undefined) service.used(scope)
      }
    })
    fastify.addHook('onClose', () => {
      stopListening()
      return service.close()
    })
  },
  {
    name: 'registrations',
    fastify: '5.x',
    dependencies: ['auth', 'connections', 'event-log', 'tools', 'calls', 'jobs', 'definition-pins']
  }
)
