import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { codeModeSettings, codeRuntimeSettings } from './code-settings.ts'
import { jobsSettings, sandboxSettings, shellSettings, terminalsSettings } from './command-settings.ts'
import { limitSettings, sheddingSettings } from './limit-settings.ts'
import { metricsSettings, tracingSettings } from './observation-settings.ts'
import { httpToolSettings } from './http-tool-settings.ts'
import { mcpBridgeSettings } from './mcp-settings.ts'
import { permissionRule } from './permission-rules.ts'
import { presetTable } from './sandbox-settings.ts'
import type { Secret } from './secret.ts'
import { bytes, choice, durationMs, integer, secret, strings } from './setting-kinds.ts'
import { webSettings } from './web-settings.ts'

/**
 * Every tunable: its type, default and description. Nothing else in the code has defaults of its own. Durations end in `Ms`,
 * sizes in `Bytes`. A setting without a default is absent unless given. The environment variable of a setting is
 * `TOOLWRIGHT_<SECTION>_<KEY>` in upper snake case, unless `env` says otherwise.
 */
export const configSchema = Type.Object({
  home: Type.String({
    default: '~/.toolwright',
    minLength: 1,
    description: 'Directory of all state: the log, the admin token, spilled results.'
  }),
  host: Type.String({ default: '127.0.0.1', minLength: 1, description: 'Address to listen on.' }),
  port: integer(7410, 0, 'Port to listen on; 0 takes a free one.', 65_535),
  allowRemote: Type.Boolean({ default: false, description: 'Permits a host that is not loopback.' }),
  allowedHosts: strings(
    'Host headers accepted besides the loopback names and `host` with the port: `name`, `name:port` or `name:*`.'
  ),
  allowedOrigins: strings("Origins accepted besides the server's own, as `https://ui.example.com`."),
  plugins: strings('Plugin files to load at start; relative to the configuration file.'),
  log: Type.Object({
    level: choice(
      ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'],
      'info',
      'Least level that is logged, to standard error.'
    )
  }),
  auth: Type.Object({
    token: Type.Optional(secret('An admin token preset for development.', 'TOOLWRIGHT_TOKEN')),
    tokenFile: Type.Optional(
      Type.String({
        minLength: 1,
        env: 'TOOLWRIGHT_TOKEN_FILE',
        description: 'File that holds the preset admin token.'
      })
    ),
    ticketTtlMs: durationMs(30_000, 'How long a WebSocket ticket is good for.'),
    maxTicketsPerToken: integer(100, 1, 'Unused tickets that one token may have at a time.')
  }),
  secrets: Type.Object({
    environment: strings(
      'Environment variables whose values are struck out of log lines, stored events, frames, exports and results.'
    ),
    files: strings('Files whose texts, without white space around them, are struck out likewise.')
  }),
  http: Type.Object({
    bodyLimitBytes: bytes(8 * 1024 * 1024, 'Largest request body.'),
    requestTimeoutMs: durationMs(30_000, 'Time to receive a whole request; a long call is not affected.'),
    headersTimeoutMs: durationMs(10_000, 'Time to receive the headers of a request.'),
    keepAliveTimeoutMs: durationMs(5_000, 'Idle time of a kept connection; longer than the balancer’s behind one.'),
    connectionsCheckingIntervalMs: durationMs(5_000, 'How often the two timeouts above are checked.'),
    maxHeadersCount: integer(100, 1, 'Header lines of one request.', 2_000),
    maxRequestsPerSocket: integer(1_000, 0, 'Requests served on one connection; 0 is no limit.'),
    trustProxy: strings('Addresses or CIDR ranges of proxies whose X-Forwarded headers are believed.')
  }),
  ws: Type.Object({
    maxFrameBytes: bytes(1024 * 1024, 'Largest frame from a client; larger closes the socket with 1009.'),
    maxFragments: integer(1_024, 1, 'Fragments of one message.'),
    pingIntervalMs: durationMs(20_000, 'How often a socket is pinged; a missed pong closes it with 1013.'),
    highWaterBytes: bytes(1024 * 1024, 'Unsent bytes of a socket beyond which nothing more is given to it.'),
    stallTimeoutMs: durationMs(
      60_000,
      'How long a socket may make no progress above its high water before it is closed with 1013.'
    ),
    maxSubscriptions: integer(20, 1, 'Subscriptions of one socket.'),
    maxCalls: integer(64, 1, 'Invocations of one socket that are not answered yet.'),
    maxSockets: integer(1_024, 1, 'Open sockets, event streams included.'),
    maxSocketsPerToken: integer(128, 1, 'Open sockets of one token.'),
    framesPerSecond: integer(500, 1, 'Frames per second read from one socket; more are read later.')
  }),
  calls: Type.Object({
    maxConcurrent: integer(256, 1, 'Invocations running at a time.'),
    maxConcurrentPerScope: integer(32, 1, 'Invocations of one scope running at a time.'),
    maxQueued: integer(1_024, 0, 'Invocations waiting for a slot.'),
    queueTimeoutMs: durationMs(30_000, 'Longest wait for a slot.'),
    maxParallelToolCalls: integer(10, 1, 'Calls of one batch whose bodies overlap.'),
    maxStoredPayloadBytes: bytes(64 * 1024 * 1024, 'Largest payload that is stored.')
  }),
  limits: limitSettings,
  shedding: sheddingSettings,
  metrics: metricsSettings,
  tracing: tracingSettings,
  presentation: Type.Object({
    mode: choice(['native', 'code', 'both'], 'native', 'Presentation mode of the global scope.')
  }),
  tools: Type.Object({
    order: strings(
      'Order of the tools in a prompt, by name; `<unlisted-tools>` stands for all others. Empty: sorted by name.'
    ),
    max: integer(10_000, 0, 'Tools that clients may have registered in all.'),
    maxPerScope: integer(500, 0, 'Tools that clients may have registered in one scope.'),
    maxDescriptionBytes: bytes(16 * 1024, 'Largest description of a tool that a client registers.')
  }),
  commandTools: Type.Object({
    enabled: Type.Boolean({
      default: true,
      description:
        'Whether an admin may register tools that run a command on this server; off as well where `sandbox.required` is set.'
    }),
    maxOutputBytes: bytes(8 * 1024 * 1024, 'Standard output of one call, beyond which the command is ended.'),
    graceMs: durationMs(3_000, 'Time between SIGTERM and SIGKILL.'),
    liveBytesPerSecond: bytes(64 * 1024, 'Standard error a second that is sent to those who watch.')
  }),
  scopes: Type.Object({
    max: integer(10_000, 1, 'Scopes there may be at a time for a client to make another.'),
    maxDepth: integer(32, 1, 'Scopes that may be above one that a client makes.'),
    maxRestrictions: integer(100, 0, 'Masks that clients may put on one scope.')
  }),
  codeMode: codeModeSettings,
  codeRuntime: codeRuntimeSettings,
  approvals: Type.Object({
    policy: choice(['ask', 'never'], 'ask', 'Whether sessions ask people; `never` refuses what would be asked.'),
    expiryMs: durationMs(24 * 3_600_000, 'How long an ask waits for a decision; 0 is for ever.', 0)
  }),
  workspace: Type.Object({
    roots: strings('Directories that the `cwd` of a session may lie in; outside them it is an admin’s.')
  }),
  shell: shellSettings,
  sandbox: sandboxSettings,
  presets: Type.Object({
    table: presetTable
  }),
  files: Type.Object({
    readRoots: strings(
      'Directories that file tools, `glob` and `grep` may read besides the directory of a session; empty: all.'
    )
  }),
  search: Type.Object({
    globMaxResults: integer(100, 1, 'Paths that a glob shows.'),
    sampleOverCapGlobResults: Type.Boolean({
      default: false,
      description: 'Show some paths of every top-level entry, when there are more than a glob shows.'
    }),
    maxRawOutputBytes: bytes(20_000_000, 'Output of the search program beyond which a search fails.')
  }),
  web: webSettings,
  httpTools: httpToolSettings,
  todo: Type.Object({
    allowParallelInProgress: Type.Boolean({
      default: true,
      description: 'Whether several items of a todo list may be in progress at a time.'
    })
  }),
  mcp: Type.Object(mcpBridgeSettings),
  mcpEndpoint: Type.Object({
    maxSessions: integer(1_024, 1, 'MCP sessions open at a time.'),
    maxSessionsPerToken: integer(
      256,
      1,
      'MCP sessions of one token; another one takes the place of the one that is longest unused.'
    ),
    idleMs: durationMs(1_800_000, 'How long an MCP session may be unused before it ends.'),
    maxReplayBytes: bytes(
      1024 * 1024,
      'Messages of one MCP session that are kept for a client whose connection breaks.'
    )
  }),
  terminals: terminalsSettings,
  jobs: jobsSettings,
  providers: Type.Object({
    graceMs: durationMs(30_000, 'How long calls under way wait for a provider that lost its socket.', 0),
    maxPendingCalls: integer(256, 1, 'Calls that one provider may have to answer.'),
    maxTools: integer(256, 1, 'Tools of one provider.', 1_000),
    maxPerToken: integer(32, 1, 'Providers of one token.')
  }),
  spill: Type.Object({
    maxInlineBytes: integer(50_000, 0, 'Text of a result beyond which it is spilled to a file.')
  }),
  repeatReminder: Type.Object({
    thresholds: Type.Array(Type.Integer({ minimum: 2 }), {
      default: [3, 5, 8],
      minItems: 1,
      uniqueItems: true,
      description: 'Counts of identical calls in a row that are remarked on.'
    }),
    include: strings('Tools that are counted, `*` as wildcard; empty: all.'),
    exclude: strings('Tools that are not counted.', ['todo_write']),
    argumentsPreviewChars: integer(500, 1, 'Characters of the arguments quoted in a reminder.')
  }),
  permissions: Type.Object({
    default: choice(['allow', 'deny', 'ask'], 'allow', 'What becomes of a call that no rule matches.'),
    rules: Type.Array(permissionRule, {
      default: [],
      description: 'Rules for all calls; the first that matches decides.'
    }),
    scopes: Type.Record(Type.String(), Type.Array(permissionRule), {
      default: {},
      description: 'Rules of single scopes and all below them, by the scope’s id; the nearest come first, `rules` last.'
    })
  }),
  store: Type.Object({
    synchronous: choice(
      ['full', 'normal'],
      'full',
      'SQLite synchronous level; `normal` may lose acknowledged events at a power cut.'
    ),
    ballastBytes: integer(
      16 * 1024 * 1024,
      0,
      'Reserve file, given up so that running calls can be closed on a full disk.'
    ),
    retentionMs: integer(30 * 24 * 3_600_000, 0, 'Age beyond which events are deleted; 0 keeps them.'),
    retentionBytes: integer(
      10 * 1024 ** 3,
      0,
      'Size of the log beyond which the oldest events are deleted; 0 keeps them.'
    )
  }),
  drain: Type.Object({
    preStopMs: durationMs(0, 'Time between reporting not ready and draining.', 0),
    drainMs: durationMs(20_000, 'Time that running calls are given at shutdown before they are aborted.', 0),
    killMs: durationMs(5_000, 'Time that aborted calls are given before connections are cut and the process ends.')
  })
})

export type Config = DeepReadonly<Static<typeof configSchema>>

type DeepReadonly<T> = T extends Secret ? T : T extends object ? { readonly [K in keyof T]: DeepReadonly<T[K]> } : T

/** One tunable: `path` as `http.bodyLimitBytes`, `variable` as `TOOLWRIGHT_HTTP_BODY_LIMIT_BYTES`. */
export interface Setting {
  readonly path: string
  readonly variable: string
  readonly schema: TSchema
  readonly isSecret: boolean
}

const variableOf = (path: string): string =>
  `TOOLWRIGHT_${path
    .replaceAll('.', '_')
    .replaceAll(/(?<=[a-z])(?=[A-Z])/g, '_')
    .toUpperCase()}`

/** Every setting by its path, in the order of the schema. */
export const settings: ReadonlyMap<string, Setting> = new Map(
  Object.entries(configSchema.properties as Record<string, TSchema>).flatMap(([name, schema]) =>
    (schema.type === 'object'
      ? Object.entries(schema.properties as Record<string, TSchema>)
      : [['', schema] as const]
    ).map(([key, leaf]): [string, Setting] => {
      const path = key === '' ? name : `${name}.${key}`
      return [
        path,
        { path, schema: leaf, variable: (leaf.env as string) ?? variableOf(path), isSecret: leaf.secret === true }
      ]
    })
  )
)
