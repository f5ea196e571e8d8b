import type { Agent } from 'undici'
import type { Subprocesses } from '../../backends/subprocess/subprocess.ts'
import { briefly } from './bridge-error.ts'
import { HttpTransport } from './http-transport.ts'
import { Link, type LinkOptions } from './link.ts'
import type { MessagePace } from './message-pace.ts'
import type { ServerDefinition } from './server-definition.ts'
import { StderrLog } from './stderr-log.ts'
import { StdioTransport } from './stdio-transport.ts'

/** What connections are made with. */
export interface LinkParts {
  readonly subprocesses: Subprocesses
  /** Ours, as the servers are told. */
  readonly version: string
  /** For the servers over HTTP. */
  readonly agent: () => Promise<Agent>
  /** Of one message. */
  readonly maxMessageBytes: number
  /** Of one server, over all its connections. */
  readonly messagesPerSecond: number
  readonly log: (level: 'debug' | 'warn', message: string, details: Record<string, unknown>) => void
  /** Epoch milliseconds. */
  readonly now: () => number
}

/** Opens a connection to a server. Rejects with why it cannot be made; a stdio server's last words are part of that. */
export async function openLink(
  server: ServerDefinition,
  parts: LinkParts,
  rest: Pick<LinkOptions, 'signal' | 'onListChanged'> & { conceal: (text: string) => string; pace: MessagePace }
): Promise<Link> {
  const { conceal, pace, ...options } = rest
  const { log, maxMessageBytes, now, version } = parts
  const about = { mcpServer: server.name }
  const tell = (error: unknown): string => conceal(briefly(error))
  const onError = (error: Error): void => log('debug', 'an MCP connection reports', { ...about, error: tell(error) })
  const { connectTimeoutMs } = server
  const common = { ...options, version, connectTimeoutMs, tell, onError }
  if (server.transport === 'streamable-http') {
    const { url, headers, toolCallTimeoutMs } = server
    // Its own deadlines come first: this one lets go of what is left.
    const responseTimeoutMs = Math.max(toolCallTimeoutMs, connectTimeoutMs) + 1_000
    const { onListChanged: onNoticesMissed } = options
    const transport = new HttpTransport({
      ...{ url, headers, agent: await parts.agent(), maxMessageBytes, pace, responseTimeoutMs, onNoticesMissed }
    })
    return Link.open({ ...common, transport })
  }
  const { subprocesses } = parts
  const { command, args, cwd } = server
  const env = Object.fromEntries(Object.entries(server.env).map(([name, value]) => [name, value.reveal()]))
  const stderr = new StderrLog((line) => log('debug', 'an MCP server says', { ...about, line: conceal(line) }), now)
  const program = await subprocesses.resolveExecutable(command, env, options.signal)
  const onStderr = (chunk: Buffer): void => stderr.add(chunk)
  const argv = [program, ...args] as const
  const transport = new StdioTransport({ subprocesses, argv, cwd, env, maxMessageBytes, pace, onStderr })
  try {
    return await Link.open({ ...common, transport })
  } catch (error) {
    const words = stderr.tail === '' ? '' : `; it said: ${conceal(stderr.tail)}`
    throw new Error(`${tell(error)}${words}`, { cause: error })
  }
}
