import { type Static, Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { McpServerSettings } from '../server/config/mcp-settings.ts'
import type { Config } from '../server/config/schema.ts'
import { RequestError } from '../server/errors.ts'
import type { BridgedEntry } from '../server/mcp/bridge/mcp-bridge.ts'
import { reachScope } from './reach.ts'
import { errorResponses } from './schemas/error-responses.ts'
import { pageQuery } from './schemas/ids.ts'
import { McpServer, McpServerName } from './schemas/mcp-servers.ts'
import type { TypeBoxProvider } from './schemas/type-provider.ts'

/** MCP servers whose tools are brought in (api.md §6). They belong to the global scope: elsewhere nobody sees them. */
export async function mcpServerRoutes(fastify: FastifyInstance, { mcp }: Pick<Config, 'mcp'>): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()
  const params = Type.Object({ name: McpServerName })

  const assertOpen = (): void => {
    if (!mcp.registerOverHttp) {
      throw new RequestError(
        'FORBIDDEN',
        'MCP servers are registered in the configuration only: mcp.registerOverHttp is off.'
      )
    }
  }

  app.get(
    '/mcp-servers',
    {
      config: { action: 'approvals:read' },
      schema: {
        summary: 'The MCP servers whose tools are brought in, by name',
        querystring: Type.Object(
          { ...pageQuery, after: Type.Optional(McpServerName) },
          { additionalProperties: false }
        ),
        response: {
          200: Type.Object({ servers: Type.Array(McpServer), next: Type.Optional(McpServerName) }),
          ...errorResponses('UNKNOWN_SCOPE')
        }
      }
    },
    async ({ principal, query }) => {
      reachScope(app, principal, 'global')
      const { limit = 100, after = '' } = query
      const rest = app.mcpBridge.list().filter(({ server }) => server.definition.name > after)
      const servers = rest.slice(0, limit).map(view)
      const last = servers.at(-1)
      return { servers, ...(last !== undefined && rest.length > limit ? { next: last.name } : {}) }
    }
  )

  app.get(
    '/mcp-servers/:name',
    {
      config: { action: 'approvals:read' },
      schema: {
        summary: 'One MCP server',
        params,
        response: { 200: McpServer, ...errorResponses('UNKNOWN_SCOPE', 'UNKNOWN_MCP_SERVER') }
      }
    },
    async ({ principal, params }) => {
      reachScope(app, principal, 'global')
      const entry = app.mcpBridge.get(params.name)
      if (entry === undefined) throw new RequestError('UNKNOWN_MCP_SERVER')
      return view(entry)
    }
  )

  app.put(
    '/mcp-servers/:name',
    {
      config: { action: 'server:administer', startsWork: true },
      schema: {
        summary: 'Register an MCP server, or another in its place',
        description:
          'Unless the setting `mcp.registerOverHttp` is off. Waits for the first connection, within bounds, and answers with what came of it; ' +
          'the server comes back after a restart.',
        params,
        body: McpServerSettings,
        response: {
          200: McpServer,
          201: McpServer,
          ...errorResponses('UNKNOWN_SCOPE', 'MCP_SERVER_FIXED', 'INVALID_DEFINITION', 'RATE_LIMITED')
        }
      }
    },
    async ({ principal, params, body }, reply) => {
      reachScope(app, principal, 'global')
      assertOpen()
      const { server, isNew } = await app.mcpBridge.put(params.name, body)
      return reply.code(isNew ? 201 : 200).send(view({ server, origin: 'registered' }))
    }
  )

  app.delete(
    '/mcp-servers/:name',
    {
      config: { action: 'server:administer' },
      schema: {
        summary: 'Take an MCP server away, with its tools',
        description:
          'Answers once its processes and connections are ended. What was remembered of its tools is forgotten.',
        params,
        response: { 204: Type.Null(), ...errorResponses('UNKNOWN_SCOPE', 'UNKNOWN_MCP_SERVER', 'MCP_SERVER_FIXED') }
      }
    },
    async ({ principal, params }, reply) => {
      reachScope(app, principal, 'global')
      assertOpen()
      await app.mcpBridge.remove(params.name)
      return reply.code(204).send(null)
    }
  )
}

/** Without any secret: of variables and headers the names, of a URL no query. */
function view({ server, origin }: BridgedEntry): Static<typeof McpServer> {
  const { definition, state } = server
  const { name, transport, toolCallTimeoutMs, connectTimeoutMs, failOnStartupError, reconnect, sharing, drift } =
    definition
  const { server: about, lastError, ...rest } = state
  return {
    ...{ name, origin, transport },
    ...(definition.transport === 'stdio'
      ? {
          command: definition.command,
          args: [...definition.args],
          env: Object.keys(definition.env),
          cwd: definition.cwd
        }
      : { url: `${definition.url.origin}${definition.url.pathname}`, headers: Object.keys(definition.headers) }),
    ...{ toolCallTimeoutMs, connectTimeoutMs, failOnStartupError, reconnect, drift },
    ...(sharing === undefined ? {} : { sharing }),
    ...(rest as Pick<Static<typeof McpServer>, 'state' | 'connections' | 'tools' | 'quarantined'>),
    ...(about === undefined ? {} : { server: { ...about } }),
    ...(lastError === undefined ? {} : { lastError })
  }
}
