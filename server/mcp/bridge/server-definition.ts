import { isAbsolute, resolve } from 'node:path'
import { RequestError } from '../../errors.ts'
import { serverNamePattern } from '../names.ts'

/** A text that is only given out when asked for: logging or printing its holder shows nothing of it. */
export interface Sealed {
  reveal(): string
}

interface GivenCommon {
  readonly toolCallTimeoutMs?: number
  readonly connectTimeoutMs?: number
  readonly failOnStartupError?: boolean
  readonly reconnect?: {
    readonly enabled?: boolean
    readonly initialDelayMs?: number
    readonly maxDelayMs?: number
    readonly maxAttempts?: number
  }
  readonly sharing?: 'shared' | 'per-scope'
  readonly drift?: 'quarantine' | 'log'
}

/** A server as it is configured or registered: absent members get the defaults of backends.md §10. */
export type GivenServer = GivenCommon &
  (
    | {
        readonly transport: 'stdio'
        readonly command: string
        readonly args?: readonly string[]
        readonly env?: Readonly<Record<string, Sealed>>
        readonly cwd?: string
      }
    | {
        readonly transport: 'streamable-http'
        readonly url: string
        readonly headers?: Readonly<Record<string, Sealed>>
      }
  )

/** When a lost connection is made anew; durations in milliseconds. */
export interface ReconnectPolicy {
  readonly enabled: boolean
  readonly initialDelayMs: number
  readonly maxDelayMs: number
  readonly maxAttempts: number
}

interface Common {
  readonly name: string
  /** Longest time of one call. */
  readonly toolCallTimeoutMs: number
  /** Longest time of the start of a connection, and of one page of its tools. */
  readonly connectTimeoutMs: number
  /** The server's own start fails where the first connection does. */
  readonly failOnStartupError: boolean
  readonly reconnect: ReconnectPolicy
  /** Absent: one connection for all, or one per scope where the server hands out session ids. */
  readonly sharing?: 'shared' | 'per-scope'
  readonly drift: 'quarantine' | 'log'
}

export interface StdioServer extends Common {
  readonly transport: 'stdio'
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, Sealed>>
  readonly cwd: string
}

export interface HttpServer extends Common {
  readonly transport: 'streamable-http'
  readonly url: URL
  readonly headers: Readonly<Record<string, Sealed>>
}

export type ServerDefinition = StdioServer | HttpServer

const namePattern = new RegExp(serverNamePattern)

/** Puts the defaults in. Throws `INVALID_DEFINITION` for what no schema can tell to be wrong. */
export function resolveServer(name: string, given: GivenServer): ServerDefinition {
  if (!namePattern.test(name)) throw invalid(name, `the name must match ${serverNamePattern}`)
  const { enabled = true, initialDelayMs = 500, maxDelayMs = 30_000, maxAttempts = 10 } = given.reconnect ?? {}
  if (initialDelayMs > maxDelayMs) throw invalid(name, 'reconnect.initialDelayMs is above reconnect.maxDelayMs')
  const common: Common = {
    name,
    toolCallTimeoutMs: given.toolCallTimeoutMs ?? 60_000,
    connectTimeoutMs: given.connectTimeoutMs ?? 30_000,
    failOnStartupError: given.failOnStartupError ?? false,
    reconnect: { enabled, initialDelayMs, maxDelayMs, maxAttempts },
    ...(given.sharing === undefined ? {} : { sharing: given.sharing }),
    drift: given.drift ?? 'quarantine'
  }
  if (given.transport === 'stdio') {
    const { command, args = [], env = {}, cwd = process.cwd() } = given
    const texts = [command, cwd, ...args, ...Object.keys(env), ...Object.values(env).map((value) => value.reveal())]
    if (texts.some((text) => text.includes('\0'))) throw invalid(name, 'there is a NUL in its command')
    if (Object.keys(env).some((key) => key === '' || key.includes('='))) throw invalid(name, 'env: not a name')
    if (!isAbsolute(command) && /[/\\]/.test(command)) throw invalid(name, 'command is a bare name or an absolute path')
    return { ...common, transport: 'stdio', command, args, env, cwd: resolve(cwd) }
  }
  const { headers = {} } = given
  if (!URL.canParse(given.url)) throw invalid(name, 'url is no URL')
  const url = new URL(given.url)
  if (!/^https?:$/.test(url.protocol)) throw invalid(name, 'url is http or https')
  if (url.username !== '' || url.password !== '') throw invalid(name, 'credentials belong in headers, not in url')
  try {
    Array.from(new Headers(Object.entries(headers).map(([key, value]) => [key, value.reveal()])))
  } catch {
    // The reason quotes the value.
    throw invalid(name, 'headers: a name or a value that cannot be sent (values are of Latin-1)')
  }
  return { ...common, transport: 'streamable-http', url, headers }
}

/** Every text of a definition that must not be shown. */
export function secretsOf(server: ServerDefinition): string[] {
  const sealed = Object.values(server.transport === 'stdio' ? server.env : server.headers)
  return sealed.map((value) => value.reveal())
}

/** A shorter one stands in many texts by chance, as `1` or `true`. */
const leastSecret = 6

/** Strikes a server's secrets out of what it says of itself: its log, its errors. */
export function concealer(server: ServerDefinition): (text: string) => string {
  const secrets = secretsOf(server).filter(({ length }) => length >= leastSecret)
  return (text) => secrets.reduce((told, secret) => told.replaceAll(secret, '[secret]'), text)
}

const invalid = (name: string, message: string): RequestError =>
  new RequestError('INVALID_DEFINITION', `MCP server ${JSON.stringify(name)}: ${message}.`)
