import { realpath } from 'node:fs/promises'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../../server/config/schema.ts'
import { SandboxAccess } from '../../server/presets/access.ts'
import { Presets } from '../../server/presets/presets.ts'
import { SandboxModes } from '../../server/presets/sandbox-modes.ts'

declare module 'fastify' {
  interface FastifyInstance {
    presets: Presets
  }
}

/** How far each call may go: sandbox modes, permission presets and escalation, over whatever confines (backends.md §11, §12). */
export const sandbox = fp(
  async (fastify: FastifyInstance, config: Pick<Config, 'home' | 'sandbox' | 'presets'>) => {
    const { sessions, approvals, approvalPolicy: policy, workspaces, privateWorkspaces } = fastify
    const { mode: fallback, scopes, required } = config.sandbox
    const isConfining = fastify.sandbox !== undefined
    const widest = required ? 'workspace-write' : 'danger-full-access'
    const modes = new SandboxModes({ fallback, scopes, widest })
    const presets = new Presets({
      modes,
      policy,
      table: config.presets.table,
      isConfining,
      isModeInUse: (session) => fastify.terminals.isUsedBy(session)
    })
    fastify.decorate('presets', presets)
    fastify.decorate(
      'sandboxPolicies',
      new SandboxAccess({
        sandbox: fastify.sandbox,
        modes,
        presets,
        approvals,
        cwdOf: (agent) => workspaces.cwdOf(agent),
        dataDirectory: await realpath(config.home)
      })
    )
    sessions.openWith((scope) => presets.openingEvents(scope))
    sessions.onDelete((session) => {
      if (!isConfining) return
      privateWorkspaces
        .removeSession(session)
        .catch((error: unknown) => fastify.log.warn({ err: error, session }, 'a private workspace was not removed'))
    })
  },
  { name: 'sandbox', fastify: '5.x', dependencies: ['calls', 'backends', 'approvals', 'terminals'] }
)
