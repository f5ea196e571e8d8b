import { realpath } from 'node:fs/promises'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { Approvals } from '../../server/approvals/approvals.ts'
import { ApprovalPolicy } from '../../server/approvals/policy.ts'
import type { Config } from '../../server/config/schema.ts'

declare module 'fastify' {
  interface FastifyInstance {
    approvals: Approvals
    approvalPolicy: ApprovalPolicy
  }
}

/** The approval service, answered by people over the wire (api.md §7). What the last server left pending goes on waiting. */
export const approvals = fp(
  async (fastify: FastifyInstance, { config }: { config: Config }) => {
    const { eventLog, sessions, registry, liveEvents, workspaces, invocations } = fastify
    const policy = new ApprovalPolicy(eventLog, config.approvals.policy)
    const service = new Approvals({
      log: eventLog,
      sessions,
      registry,
      policy,
      expiryMs: config.approvals.expiryMs,
      workdirOf: async (session) => realpath(await workspaces.cwdOf(session)),
      policyVersionOf: ({ scope }) => fastify.policyVersionOf(scope),
      publish: (type, event) => liveEvents.publish(type, event),
      hasPeople: true
    })
    fastify.decorate('approvals', service)
    fastify.decorate('approvalPolicy', policy)
    // Policies and tools are there only when all plugins are: then what waits can be looked at.
    fastify.addHook('onReady', () =>
      service.restore(async (session, { callId }) => {
        const [row] = await eventLog.rows('calls', { session: session.id, call_id: callId }, 1)
        if (row?.['state'] !== 'awaiting-approval') return undefined
        return { over: (await invocations.resume(session, row)).answer }
      })
    )
    fastify.addHook('onClose', async () => service.dispose())
  },
  { name: 'approvals', fastify: '5.x', dependencies: ['calls', 'backends'] }
)
