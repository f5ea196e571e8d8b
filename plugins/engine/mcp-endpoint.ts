import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../../server/config/schema.ts'
import { McpSessions } from '../../server/mcp/endpoint/mcp-sessions.ts'
import { ToolLists } from '../../server/mcp/endpoint/tool-lists.ts'
import { version } from '../../server/commands/version.ts'
import { createPromptAssembly, type SectionProvider } from '../../server/tools/presentation.ts'
import { toWireError } from './errors.ts'

declare module 'fastify' {
  interface FastifyInstance {
    mcpSessions: McpSessions
  }
}

export interface McpEndpointOptions extends Pick<Config, 'mcpEndpoint' | 'ws' | 'tools'> {
  /** What else a model must be told: code mode's sections. */
  sections?: SectionProvider
}

/** The MCP sessions (api.md §6): they end with their token, their scope and the server. */
export const mcpEndpoint = fp(
  async (fastify: FastifyInstance, { mcpEndpoint: limits, ws, tools, sections }: McpEndpointOptions) => {
    const { registry, scopes, sessions, invocations, liveEvents, tokens, log } = fastify
    const order = tools.order.length === 0 ? {} : { toolOrder: tools.order }
    const assemble = createPromptAssembly({ catalogue: registry, ...(sections !== undefined && { sections }) })
    const definition = registry.lookup.bind(registry)
    const open = new McpSessions(
      {
        version: version(),
        sessions,
        invocations,
        bus: liveEvents,
        lists: new ToolLists((scope) => assemble({ scope, ...order }), definition),
        definition,
        incomingTrace: (meta) => fastify.tracing.incoming(meta),
        toRequestError: toWireError,
        onError: (error) => log.debug({ err: error }, 'an MCP session had trouble'),
        limits: { ...ws, ...limits }
      },
      limits
    )
    fastify.decorate('mcpSessions', open)
    const endSessions = (): void => void open.sweep(({ owner }) => !tokens.isLive(owner))
    const undos = [
      registry.onChange(() => open.noticeChange((scope) => scopes.isLive(scope))),
      tokens.onEnded(endSessions)
    ]
    const sweep = setInterval(endSessions, 1_000).unref()
    // Streams would hold up the end; what runs is ended by the calls' own step of the drain.
    fastify.shutdown.addDrainStep(() => open.closeWhenQuiet())
    fastify.addHook('onClose', async () => {
      clearInterval(sweep)
      for (const undo of undos) undo()
      await open.close()
    })
  },
  { name: 'mcp-endpoint', fastify: '5.x', dependencies: ['tools', 'calls', 'events', 'shutdown', 'auth'] }
)
