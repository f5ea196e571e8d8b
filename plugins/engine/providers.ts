import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../../server/config/schema.ts'
import { RequestError } from '../../server/errors.ts'
import { Providers } from '../../server/executors/providers.ts'
import { isToolOf } from '../../server/registrations/provided-tools.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Who runs tools over its own socket. */
    providers: Providers
  }
}

/**
 * Decorates the server with `providers` (api.md §5). Comes before the stored tools are restored, which find theirs in it. Calls are drained
 * before it ends, so that those it still has are ones that would not end.
 */
export const providers = fp(
  async (fastify: FastifyInstance, { providers: limits, ws }: Pick<Config, 'providers' | 'ws'>) => {
    const { scopes, tokens, tools } = fastify
    const table = new Providers({
      limits: { ...limits, maxFrameBytes: ws.maxFrameBytes },
      isOwnerLive: (tokenId) => tokens.isLive({ tokenId }) || tokens.list().some(({ id }) => id === tokenId),
      hasTools: (scope, id) => fastify.wireTools.of(scope).some((stored) => isToolOf(stored, id)),
      onScope: (scope, forget) => {
        if (!scopes.isLive(scope)) throw new RequestError('UNKNOWN_SCOPE', `There is no scope "${scope.id}".`)
        if (scope.parent === undefined) return
        let handle = tools
        for (const { id } of scope.chain.slice(1)) handle = handle.child(id)
        handle.onDispose(forget)
      }
    })
    fastify.decorate('providers', table)
    fastify.addHook('onClose', async () => table.close())
  },
  { name: 'providers', fastify: '5.x', dependencies: ['auth', 'tools'] }
)
