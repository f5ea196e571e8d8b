import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../../server/config/schema.ts'
import { Admission } from '../../server/invocations/admission.ts'
import type { CallEngine } from '../../server/invocations/call-run.ts'
import { Invocations } from '../../server/invocations/invoke.ts'
import { LiveCalls } from '../../server/invocations/live-calls.ts'
import { openSteps, recover, repairSession } from '../../server/invocations/recovery.ts'
import type { StrikeOut } from '../../server/json/strike-out.ts'
import type { Scope } from '../../server/scopes/scope.ts'
import type { Session } from '../../server/sessions/session.ts'
import { sessionPlans } from '../../server/sessions/session-plans.ts'
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
  async (
    fastify: FastifyInstance,
    { calls: limits, limits: more, strikeOut }: Pick<Config, 'calls' | 'limits'> & { strikeOut?: StrikeOut | undefined }
  ) => {
    const { eventLog: log, scopes: tree, pipeline, liveEvents, registry } = fastify
    const isIdempotent = (name: string, scopeId: string): boolean => {
      const scope = tree.get(scopeId)
      return scope !== undefined && registry.lookup(name, scope)?.idempotent === true
    }
    const liveCalls = new LiveCalls()
    const engine: CallEngine = {
      pipeline,
      calls: liveCalls,
      publish: (type, event) => liveEvents.publish(type, event),
      strikeOut
    }
    const sessions = new Sessions({
      log,
      tree,
      onOpen: endWithScopes(fastify, liveCalls),
      repair: (id, failure) => repairSession(log, id, { isIdempotent, failure }),
      openSteps: (id, turn) => openSteps(log, id, turn),
      onStale: (session, error) => {
        fastify.log.warn({ err: error, session: session.id }, 'a session could not be stored; its calls end')
        liveCalls.abort(new Error('the session could not be stored'), (call) => call.session === session)
      }
    })
    const invocations = new Invocations({
      engine,
      calls: liveCalls,
      log,
      admission: new Admission(limits, more),
      maxParallel: limits.maxParallelToolCalls
    })
    fastify.decorate('sessions', sessions)
    fastify.decorate('invocations', invocations)
    fastify.decorate('callEngine', engine)
    fastify.decorate('plans', sessionPlans)

    // What a tool declares is known only when the plugins and the clients' registrations are there.
    fastify.addHook('onReady', async () => {
      const repaired = await recover(log, { isIdempotent })
      if (repaired === 0) return
      fastify.log.info({ sessions: repaired }, 'turns that were open when the last server ended are closed now')
    })

    fastify.shutdown.addDrainStep(async (deadline) => {
      liveCalls.beginShutdown()
      deadline.addEventListener('abort', () => liveCalls.abort(deadline.reason as Error), { once: true })
      await liveCalls.whenQuiet()
    })
  },
  { name: 'calls', fastify: '5.x', dependencies: ['event-log', 'events', 'shutdown'] }
)

/**
 * The calls of a scope that is disposed are aborted, and its disposal waits until they have their results. Returns what is to be told
 * of every session that opens.
 */
function endWithScopes({ registry, scopes, tools }: FastifyInstance, calls: LiveCalls): (session: Session) => void {
  const watched = new WeakSet<Scope>()
  registry.onChange(() =>
    calls.abort(new Error('the scope was disposed'), ({ session }) => !scopes.isLive(session.scope))
  )
  return ({ scope }) => {
    if (scope.parent === undefined || watched.has(scope) || !scopes.isLive(scope)) return
    watched.add(scope)
    let handle = tools
    for (const { id } of scope.chain.slice(1)) handle = handle.child(id)
    handle.onDispose(() => calls.whenQuiet(({ session }) => session.scope === scope))
  }
}
