import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { Secret } from './secret.ts'

const closed = { additionalProperties: false }
const maxDelayMs = 2_147_483_647

const durationMs = (description: string) =>
  Type.Optional(Type.Integer({ minimum: 1, maximum: maxDelayMs, description }))
const texts = (description: string) => Type.Optional(Type.Record(Type.String(), Type.String(), { description }))
const choice = <const T extends string[]>(values: [...T], description: string) =>
  Type.Optional(
    Type.Union(
      values.map((value) => Type.Literal<T[number]>(value)),
      { description }
    )
  )

const common = {
  toolCallTimeoutMs: durationMs('Longest time of one call; 60,000 if absent.'),
  connectTimeoutMs: durationMs('Longest time to connect, and to read one page of the tools; 30,000 if absent.'),
  failOnStartupError: Type.Optional(
    Type.Boolean({
      description:
        'Whether the start of Toolwright, or the registration, fails where the first connection does; false if absent.'
    })
  ),
  reconnect: Type.Optional(
    Type.Object(
      {
        enabled: Type.Optional(Type.Boolean({ description: 'True if absent.' })),
        initialDelayMs: durationMs('Wait before the first attempt, doubled with each; 500 if absent.'),
        maxDelayMs: durationMs(
          'Longest wait; a connection that lasted so long makes the attempts whole again; 30,000 if absent.'
        ),
        maxAttempts: Type.Optional(
          Type.Integer({ minimum: 1, maximum: 1_000_000, description: 'After which the tools go; 10 if absent.' })
        )
      },
      { ...closed, description: 'How a lost connection is made anew.' }
    )
  ),
  sharing: choice(
    ['shared', 'per-scope'],
    'One connection for all scopes, or one for each. Absent: one for each where the server hands out session ids, else shared.'
  ),
  drift: choice(
    ['quarantine', 'log'],
    'What becomes of a tool whose definition has changed: hidden until an operator accepts it (if absent), or logged.'
  )
}

const stdio = Type.Object(
  {
    transport: Type.Literal('stdio'),
    command: Type.String({
      minLength: 1,
      maxLength: 4_096,
      description: 'A program on the PATH, or an absolute path.'
    }),
    args: Type.Optional(Type.Array(Type.String({ maxLength: 65_536 }), { maxItems: 1_000 })),
    env: texts('Put over the environment of the server, which is given without what looks like a secret. Never shown.'),
    cwd: Type.Optional(Type.String({ minLength: 1, maxLength: 4_096 })),
    ...common
  },
  { ...closed, description: 'A program that is started, and speaks over its standard streams.' }
)

const http = Type.Object(
  {
    transport: Type.Literal('streamable-http'),
    url: Type.String({
      pattern: '^https?://[^/?#]',
      maxLength: 8_192,
      description: 'May be an address of this machine.'
    }),
    headers: texts('Sent with every request. Never shown.'),
    ...common
  },
  { ...closed, description: 'A server over streamable HTTP.' }
)

/** One MCP server whose tools are brought in (backends.md §10), as the configuration and `PUT /mcp-servers/{name}` state it. */
export const McpServerSettings = Type.Union([stdio, http], { description: 'an MCP server: docs/mcp.md' })

type Given = Static<typeof McpServerSettings>
type Sealing<T> = T extends unknown
  ? { [K in keyof T]: K extends 'env' | 'headers' ? Record<string, Secret> : T[K] }
  : never

/** A server whose secrets show nowhere. */
export type SealedMcpServer = Sealing<Given>

export function sealMcpServer(given: Given): SealedMcpServer {
  const seal = (values: Record<string, string>): Record<string, Secret> =>
    Object.fromEntries(Object.entries(values).map(([name, value]) => [name, new Secret(value)]))
  if (given.transport === 'stdio') {
    const { env, ...rest } = given
    return env === undefined ? rest : { ...rest, env: seal(env) }
  }
  const { headers, ...rest } = given
  return headers === undefined ? rest : { ...rest, headers: seal(headers) }
}

/** The servers of a configuration; what is no table of servers comes back as it is, and is refused elsewhere. */
export function sealMcpServers(value: unknown): unknown {
  if (!Value.Check(serverTable, value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, server]) => [name, sealMcpServer(server)]))
}

const serverTable = Type.Record(Type.String({ pattern: '^[A-Za-z0-9_-]{1,32}$' }), McpServerSettings, closed)

const integer = (fallback: number, minimum: number, description: string, maximum = Number.MAX_SAFE_INTEGER) =>
  Type.Integer({ default: fallback, minimum, maximum, description })

/** The bridge's part of the section `mcp` of the configuration. */
export const mcpBridgeSettings = {
  servers: Type.Unsafe<Record<string, SealedMcpServer>>({
    ...serverTable,
    default: {},
    hidesValues: true,
    description: 'MCP servers whose tools are brought in, by name.'
  }),
  registerOverHttp: Type.Boolean({
    default: true,
    description:
      'Whether admins may register MCP servers at run time; a stdio server is a program that Toolwright runs.'
  }),
  startupWaitMs: integer(
    10_000,
    0,
    'How long the start waits for the first connection of the servers at most.',
    maxDelayMs
  ),
  maxServers: integer(100, 1, 'MCP servers there may be.'),
  maxTools: integer(1_000, 1, 'Tools of one server; a longer list is not taken.'),
  maxSchemaBytes: integer(64 * 1024, 1, 'One schema, or one description, of a server’s tool.'),
  maxMessageBytes: integer(16 * 1024 * 1024, 4_096, 'One message of a server; a larger answer fails its call.'),
  messagesPerSecond: integer(
    1_000,
    1,
    'Messages a second that are read of one server, over all its connections; more are read later.'
  ),
  maxConnections: integer(256, 1, 'Connections to one server, where each scope has its own.'),
  listChangedIntervalMs: integer(
    1_000,
    1,
    'Least time between two readings of a list that a server asks for.',
    maxDelayMs
  )
}
