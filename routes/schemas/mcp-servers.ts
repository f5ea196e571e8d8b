import { Type } from '@sinclair/typebox'
import { serverNamePattern } from '../../server/mcp/names.ts'

export const McpServerName = Type.String({ pattern: serverNamePattern, description: 'Name of an MCP server.' })

const names = (description: string) => Type.Array(Type.String(), { description })

/** A server and how it is doing: its definition without secrets, its tools, its last error. */
export const McpServer = Type.Object(
  {
    name: McpServerName,
    origin: Type.Unsafe<'configuration' | 'registered'>({ type: 'string', enum: ['configuration', 'registered'] }),
    transport: Type.Unsafe<'stdio' | 'streamable-http'>({ type: 'string', enum: ['stdio', 'streamable-http'] }),
    command: Type.Optional(Type.String()),
    args: Type.Optional(Type.Array(Type.String())),
    env: Type.Optional(names('Names of the variables that it is given; never their values.')),
    cwd: Type.Optional(Type.String()),
    url: Type.Optional(Type.String({ description: 'Without its query.' })),
    headers: Type.Optional(names('Names of the headers that are sent; never their values.')),
    toolCallTimeoutMs: Type.Integer(),
    connectTimeoutMs: Type.Integer(),
    failOnStartupError: Type.Boolean(),
    reconnect: Type.Object({
      enabled: Type.Boolean(),
      initialDelayMs: Type.Integer(),
      maxDelayMs: Type.Integer(),
      maxAttempts: Type.Integer()
    }),
    sharing: Type.Optional(Type.Unsafe<'shared' | 'per-scope'>({ type: 'string', enum: ['shared', 'per-scope'] })),
    drift: Type.Unsafe<'quarantine' | 'log'>({ type: 'string', enum: ['quarantine', 'log'] }),
    state: Type.Unsafe<'connecting' | 'ready' | 'disconnected' | 'stopped' | 'closed'>({
      type: 'string',
      enum: ['connecting', 'ready', 'disconnected', 'stopped', 'closed'],
      description:
        '`disconnected`: an attempt is to follow, if it reconnects at all; `stopped`: none will, and its tools are gone.'
    }),
    connections: Type.Integer({ description: 'Open ones, those of scopes included.' }),
    server: Type.Optional(
      Type.Object({ name: Type.String(), version: Type.String() }, { description: 'What it says of itself.' })
    ),
    tools: Type.Array(
      Type.Object({
        name: Type.String({ description: 'As it is called here.' }),
        tool: Type.String({ description: 'As the server calls it.' })
      })
    ),
    quarantined: Type.Array(
      Type.Object({
        name: Type.String(),
        hash: Type.String({ description: 'Of the definition that waits: for `POST /tools/{name}/accept`.' }),
        changes: Type.Array(Type.String(), { description: 'How it differs from the one that was known.' }),
        since: Type.Integer({ description: 'Epoch milliseconds.' })
      }),
      { description: 'Tools that are hidden, as their definitions have changed.' }
    ),
    lastError: Type.Optional(Type.String())
  },
  { description: 'An MCP server whose tools are brought in.' }
)
