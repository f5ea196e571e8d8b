import { realpath } from 'node:fs/promises'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { Approvals } from '../../server/approvals/approvals.ts'
import { ApprovalPolicy } from '../../server/approvals/policy.ts'
import { UserQuestions } from '../../server/approvals/questions.ts'
import type { Config } from '../../server/config/schema.ts'
import type { Scope } from '../../server/scopes/scope.ts'

declare module '../../server/services.ts' {
  interface Services {
    approvals: Approvals
    approvalPolicy: ApprovalPolicy
  }
}

interface ApprovalsPluginOptions {
  approvals: Config['approvals']
  /** Digest of the permission rules in force in a scope. */
  policyVersionOf: (scope: Scope) => string
}

/** The approval service, answered by people over the wire (api.md §7). What the last server left pending goes on waiting. */
export const approvals = fp(
  async (fastify: FastifyInstance, { approvals, policyVersionOf }: ApprovalsPluginOptions) => {
    const { eventLog: log, sessions, registry, liveEvents, workspaces, invocations } = fastify
    const policy = new ApprovalPolicy(approvals.policy)
    const service = new Approvals({
      log,
      sessions,
      registry,
      policy,
      expiryMs: approvals.expiryMs,
      workdirOf: async (session) => {
        const cwd = await workspaces.cwdOf(session)
        return realpath(cwd).catch(() => cwd)
      },
      policyVersionOf: ({ scope }) => policyVersionOf(scope),
      resumeCall: async (session, { callId }) => {
        const [row] = await log.rows('calls', { session: session.id, call_id: callId }, 1)
        if (row?.['state'] !== 'awaiting-approval') return undefined
        return { over: (await invocations.resume(session, row)).answer }
      },
      announce: ({ id, kind, session, scope, callId, toolName, reason }) =>
        liveEvents.publish('approval/pending', {
          id,
          kind,
          session,
          scope,
          callId,
          toolName,
          ...(reason === undefined ? {} : { reason })
        }),
      warn: (message, details) => fastify.log.warn(details, message)
    })
    fastify.decorate('approvals', service)
    fastify.decorate('approvalPolicy', policy)
    const questions = new UserQuestions()
    questions.provide((ask) => service.askQuestions(ask))
    fastify.decorate('questions', questions)
    // Tools and policies are there only when all plugins are: what waits asks again then.
    fastify.addHook('onReady', () => service.pending.restore())
    const undo = log.onState((state) => {
      if (state === 'open') void service.pending.reclaim()
    })
    // After the step of the calls, which has told the callers by then where to ask.
    fastify.shutdown.addDrainStep(async () => service.pending.beginShutdown())
    fastify.addHook('onClose', async () => {
      undo()
      service.pending.dispose()
    })
  },
  { name: 'approvals', fastify: '5.x', dependencies: ['calls', 'backends', 'shutdown'] }
)
