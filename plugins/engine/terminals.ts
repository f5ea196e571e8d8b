import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { ShellTerminals } from '../../server/backends/terminals/shell-terminals.ts'
import { TerminalRegistry } from '../../server/backends/terminals/terminal-registry.ts'
import type { Config } from '../../server/config/schema.ts'
import type { Concerns } from '../../server/events/vocabulary.ts'
import type { Scope } from '../../server/scopes/scope.ts'
import { Session } from '../../server/sessions/session.ts'

declare module '../../server/events/vocabulary.ts' {
  interface LiveEvents {
    /** Plain text of a terminal. `offset` is where it begins; a step in the offsets tells that some was left out (api.md §5). */
    'terminal/output': Concerns & { id: string; offset: number; text: string }
  }
}

/**
 * Terminals, owned by live sessions (backends.md §5): they end with their session, with its scope, and with the server, which waits
 * for that. What they show is a live event.
 */
export const terminals = fp(
  async (fastify: FastifyInstance, { terminals: settings }: Pick<Config, 'terminals'>) => {
    const { subprocesses, sessions, scopes, tools, liveEvents, eventLog, log } = fastify
    const { maxPerSession, max, maxInputBytes, maxResultBytes: _maxResultBytes, ...limits } = settings
    const isOwnerLive = (owner: object): boolean =>
      owner instanceof Session && !owner.isStale && scopes.isLive(owner.scope)

    const registry = new TerminalRegistry({
      maxPerOwner: maxPerSession,
      maxTotal: max,
      maxInputBytes,
      isOwnerLive,
      hold: (owner) => {
        const session = owner as Session
        watch(session.scope)
        void endOrphans()
        return session.keep()
      },
      onOutput: ({ sessionId: id, owner }, text, offset) => {
        if (!(owner instanceof Session)) return
        liveEvents.publish('terminal/output', { id, session: owner.id, scope: owner.scope.id, offset, text })
      }
    })
    const shell = new ShellTerminals(subprocesses, {
      limits,
      warn: (message, details) => log.warn(details, message)
    })
    registry.register(shell)
    fastify.decorate('terminals', registry)

    const watched = new WeakSet<Scope>()
    /** The disposal of a scope waits until the terminals of its sessions are gone. */
    const watch = (scope: Scope): void => {
      if (scope.parent === undefined || watched.has(scope)) return
      watched.add(scope)
      let handle = tools
      for (const { id } of scope.chain.slice(1)) handle = handle.child(id)
      handle.onDispose(() => registry.closeOwned((owner) => owner instanceof Session && owner.scope === scope))
    }
    /** A session that failed is another object from then on, which does not own what this one had. */
    const endOrphans = (): Promise<void> =>
      registry
        .closeOwned((owner) => !isOwnerLive(owner))
        .catch((error: unknown) => log.warn({ err: error }, 'terminals of a session that failed could not be ended'))

    const undos = [
      sessions.onEnd((session) => registry.closeOwned((owner) => owner === session)),
      eventLog.onState((state) => {
        if (state === 'open') void endOrphans()
      })
    ]
    fastify.addHook('onClose', async () => {
      for (const undo of undos) undo()
      try {
        await registry.dispose()
      } finally {
        await shell.dispose()
      }
    })
  },
  { name: 'terminals', fastify: '5.x', dependencies: ['calls', 'events', 'backends'] }
)
