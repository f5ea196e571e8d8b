import type { Static } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Agent } from 'undici'
import { type McpServerSettings, sealMcpServer } from '../../server/config/mcp-settings.ts'
import { version } from '../../server/commands/version.ts'
import { ConfigError } from '../../server/config/load.ts'
import type { Config } from '../../server/config/schema.ts'
import type { BridgedServer } from '../../server/mcp/bridge/bridged-server.ts'
import { McpBridge } from '../../server/mcp/bridge/mcp-bridge.ts'
import { type GivenServer, resolveServer } from '../../server/mcp/bridge/server-definition.ts'
import { StoredServers } from '../../server/mcp/bridge/stored-servers.ts'
import { systemClock } from '../../server/registrations/idle-scopes.ts'

declare module 'fastify' {
  interface FastifyInstance {
    mcpBridge: McpBridge
  }
}

/** Time to reach a server over HTTP. How long it may then take is each request's own affair. */
const connectMs = 10_000

/**
 * Brings in the tools of MCP servers (api.md §6, backends.md §10): those of the configuration, then those that were registered. Whoever
 * needs them awaits `whenStarted`: a plugin that took so long would be given up by Fastify.
 */
export const mcpBridge = fp(
  async (fastify: FastifyInstance, { mcp }: Pick<Config, 'mcp'>) => {
    const { subprocesses, registry, scopes, definitionPins: pins, eventLog, liveEvents, log } = fastify
    let opened: Promise<Agent> | undefined
    const agent = (): Promise<Agent> =>
      (opened ??= openAgent().catch((error: unknown) => {
        // It may load the next time, as when there was no descriptor left.
        opened = undefined
        throw error
      }))
    const { maxTools, maxSchemaBytes, maxConnections: maxLinks, listChangedIntervalMs } = mcp
    const problems = Object.entries(mcp.servers).flatMap(problemsOf)
    if (problems.length > 0) throw new ConfigError(problems)
    /** What was last told of each: much of what happens changes nothing. */
    const told = new WeakMap<BridgedServer, string>()
    const bridge = new McpBridge({
      parts: {
        links: {
          subprocesses,
          version: version(),
          agent,
          maxMessageBytes: mcp.maxMessageBytes,
          messagesPerSecond: mcp.messagesPerSecond,
          log: (level, message, details) => log[level](details, message),
          now: () => Date.now()
        },
        registry,
        pins,
        limits: { maxTools, maxSchemaBytes, maxLinks, listChangedIntervalMs },
        clock: systemClock,
        isLive: (scope) => scopes.isLive(scope),
        traceOf: (exec) => fastify.tracing.propagationHeaders(exec)
      },
      stored: new StoredServers(eventLog),
      // What a route took, or had taken when it was stored.
      seal: (given) => sealMcpServer(given as unknown as Static<typeof McpServerSettings>),
      startupWaitMs: mcp.startupWaitMs,
      maxServers: mcp.maxServers,
      now: () => Date.now(),
      onChange: (server) => {
        const change = changeOf(server)
        const text = JSON.stringify(change)
        if (told.get(server) === text) return
        told.set(server, text)
        liveEvents.publish('mcp/changed', change)
      },
      warn: (message, details) => log.warn(details, message)
    })
    fastify.decorate('mcpBridge', bridge)
    fastify.addHook('onClose', async () => {
      await bridge.close()
      const used = await opened
      await used?.destroy()
    })
    bridge.start(mcp.servers, { restore: mcp.registerOverHttp })
  },
  { name: 'mcp-bridge', fastify: '5.x', dependencies: ['backends', 'events', 'tools', 'definition-pins'] }
)

async function openAgent(): Promise<Agent> {
  const { Agent } = await import('undici')
  return new Agent({ headersTimeout: 0, bodyTimeout: 0, connect: { timeout: connectMs } })
}

/** What no schema of the settings can tell to be wrong. It is said before any server is connected to. */
function problemsOf([name, given]: [string, GivenServer]): string[] {
  try {
    resolveServer(name, given)
    return []
  } catch (error) {
    return [`mcp.servers: ${(error as Error).message}`]
  }
}

/** Servers belong to the global scope, and so does the news of them. */
function changeOf({ definition, state }: BridgedServer) {
  const { tools, quarantined } = state
  return {
    scope: 'global',
    server: definition.name,
    state: state.state,
    tools: tools.length,
    quarantined: quarantined.length
  }
}
