import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../../server/config/schema.ts'
import { RequestError } from '../../server/errors.ts'
import { ClientExecutor } from '../../server/executors/client-executor.ts'
import { CommandExecutor, commandLine } from '../../server/executors/command-executor.ts'
import type { Executor } from '../../server/executors/executor.ts'
import { wireTool } from '../../server/executors/wire-tool.ts'
import type { ExecutorSettings } from '../../server/registrations/stored-tool.ts'
import { WireTools } from '../../server/registrations/wire-tools.ts'
import type { Scope } from '../../server/scopes/scope.ts'

declare module 'fastify' {
  interface FastifyInstance {
    wireTools: WireTools
  }
}

/**
 * The tools that clients register (api.md §3), and what runs them, by the executor's kind. Comes after what holds scopes and providers,
 * as what is stored is registered again here.
 */
export const wireTools = fp(
  async (fastify: FastifyInstance, config: Pick<Config, 'tools' | 'commandTools' | 'sandbox'>) => {
    const { eventLog: log, scopes: tree, registry, registrations, wireSchemas } = fastify

    const command = (settings: ExecutorSettings): Executor => {
      const { enabled, ...limits } = config.commandTools
      if (!enabled || config.sandbox.required) {
        throw new RequestError('FORBIDDEN', 'This server runs no command tools (`commandTools.enabled`).')
      }
      return new CommandExecutor({
        argv: commandLine(settings),
        limits,
        subprocesses: fastify.subprocesses,
        cwdOf: async (id) => fastify.workspaces.cwdOf(id === undefined ? undefined : await fastify.sessions.find(id)),
        onStderr: (stderr, { callId, name, scope, session }) =>
          fastify.log.info({ tool: name, callId, scope, session, stderr }, 'a command tool wrote to standard error')
      })
    }

    const executorOf = (settings: ExecutorSettings, scope: Scope): Executor => {
      switch (settings.kind) {
        case 'client': {
          const { providerId, owner } = settings as unknown as { providerId: string; owner: string }
          return new ClientExecutor(fastify.providers.restore(scope, providerId, owner))
        }
        case 'command':
          return command(settings)
        case 'http':
          return fastify.httpTools.open(settings, scope)
        default:
          throw new RequestError('INVALID_DEFINITION', '"executor.kind" is none that tools are registered with.')
      }
    }

    const service = new WireTools({
      log,
      tree,
      registry,
      limits: config.tools,
      now: () => Date.now(),
      inTurn: (change) => registrations.inTurn(change),
      make: ({ tool, executor }, scope) => wireTool(tool, executorOf(executor, scope), wireSchemas),
      used: (scope) => registrations.used(scope),
      warn: (message, details) => fastify.log.warn(details, message)
    })
    await service.restore()
    fastify.decorate('wireTools', service)
  },
  {
    name: 'wire-tools',
    fastify: '5.x',
    dependencies: ['registrations', 'wire-schemas', 'backends', 'calls', 'http-tools', 'providers']
  }
)
