import { setTimeout as sleep } from 'node:timers/promises'
import { RequestError } from '../../errors.ts'
import type { JsonObject } from '../../json/lossless.ts'
import { InTurn } from '../../registrations/in-turn.ts'
import { BridgedServer, type BridgedServerParts } from './bridged-server.ts'
import { type GivenServer, resolveServer } from './server-definition.ts'
import type { StoredServers } from './stored-servers.ts'

export interface McpBridgeOptions {
  readonly parts: Omit<BridgedServerParts, 'onChange'>
  readonly stored: StoredServers
  /** Makes a definition of what was stored; throws for what is none. */
  readonly seal: (given: JsonObject) => GivenServer
  /** Milliseconds that the start of the server, and of one that is registered, waits for its first connection at most. */
  readonly startupWaitMs: number
  /** Servers there may be. */
  readonly maxServers: number
  readonly now: () => number
  readonly onChange: (server: BridgedServer) => void
  readonly warn: (message: string, details: Record<string, unknown>) => void
}

/** Where a server's definition came from. */
export type ServerOrigin = 'configuration' | 'registered'

export interface BridgedEntry {
  readonly server: BridgedServer
  readonly origin: ServerOrigin
}

/** Every MCP server whose tools are brought in, by name (api.md §6, backends.md §10). */
export class McpBridge {
  readonly #options: McpBridgeOptions
  readonly #servers = new Map<string, BridgedEntry>()
  readonly #changes = new InTurn()
  #started: Promise<void> = Promise.resolve()
  #isClosed = false

  constructor(options: McpBridgeOptions) {
    this.#options = options
  }

  /** Starts the servers of the configuration, and those that were registered if they are to come back. Returns at once. */
  start(configured: Readonly<Record<string, GivenServer>>, { restore }: { restore: boolean }): void {
    const start = async (): Promise<void> => {
      const adding = Object.entries(configured).map(([name, given]) => this.add(name, given, 'configuration'))
      // None that is still starting outlives the failure of another.
      const failed = (await Promise.allSettled(adding)).find((outcome) => outcome.status === 'rejected')
      if (failed !== undefined) throw failed.reason
      if (restore) await this.#restore()
    }
    this.#started = start()
    this.#started.catch(() => {})
  }

  /** Resolves when the start is over, within its bounds; rejects where a server of the configuration says that it must succeed. */
  whenStarted(): Promise<void> {
    return this.#started
  }

  list(): BridgedEntry[] {
    return [...this.#servers.values()].sort((a, b) => (a.server.definition.name < b.server.definition.name ? -1 : 1))
  }

  get(name: string): BridgedEntry | undefined {
    return this.#servers.get(name)
  }

  /**
   * Adds a server and waits for its first connection, but no longer than `startupWaitMs`: one that is slow goes on in the background.
   * Throws where the name is taken or the definition is none, and, if it says `failOnStartupError`, with what its start failed of.
   */
  async add(name: string, given: GivenServer, origin: ServerOrigin): Promise<BridgedServer> {
    const { parts, maxServers, warn, onChange } = this.#options
    const definition = resolveServer(name, given)
    if (this.#isClosed) throw new RequestError('SHUTTING_DOWN')
    if (this.#servers.has(name)) throw new Error(`an MCP server ${JSON.stringify(name)} is there already`)
    if (this.#servers.size >= maxServers)
      throw new RequestError('RATE_LIMITED', `There are ${maxServers} MCP servers, the most there may be.`)
    const server: BridgedServer = new BridgedServer(definition, { ...parts, onChange: () => onChange(server) })
    this.#servers.set(name, { server, origin })
    const started = server.start()
    if (definition.failOnStartupError) {
      try {
        await started
      } catch (error) {
        this.#servers.delete(name)
        await server.close()
        const told = server.state.lastError ?? 'it did not start'
        throw new RequestError('INVALID_DEFINITION', `MCP server ${JSON.stringify(name)}: ${told}`, { cause: error })
      }
      return server
    }
    const settled = started.catch(() => {
      warn('an MCP server did not start', { mcpServer: name, error: server.state.lastError })
    })
    const enough = new AbortController()
    const { signal } = enough
    await Promise.race([settled, sleep(this.#options.startupWaitMs, undefined, { signal }).catch(() => {})])
    enough.abort()
    return server
  }

  /**
   * Registers a server over the wire, or one in its place: it is stored before it is started. Throws `MCP_SERVER_FIXED` for a name of the
   * configuration, and what `add` does, with the old one still there where the new one is no definition.
   */
  put(name: string, stored: JsonObject): Promise<{ server: BridgedServer; isNew: boolean }> {
    return this.#changes.run(async () => {
      if (this.#isClosed) throw new RequestError('SHUTTING_DOWN')
      const given = this.#options.seal(stored)
      resolveServer(name, given)
      const before = this.#servers.get(name)
      if (before?.origin === 'configuration') throw new RequestError('MCP_SERVER_FIXED')
      await this.#options.stored.put({ name, given: stored }, this.#options.now())
      if (before !== undefined) {
        this.#servers.delete(name)
        await before.server.close()
      }
      try {
        return { server: await this.add(name, given, 'registered'), isNew: before === undefined }
      } catch (error) {
        await this.#options.stored.remove(name)
        throw error
      }
    })
  }

  /** Takes a registered server away, with its tools and what was remembered of them. Throws `UNKNOWN_MCP_SERVER`, `MCP_SERVER_FIXED`. */
  remove(name: string): Promise<void> {
    return this.#changes.run(async () => {
      const entry = this.#servers.get(name)
      if (entry === undefined) throw new RequestError('UNKNOWN_MCP_SERVER')
      if (entry.origin === 'configuration') throw new RequestError('MCP_SERVER_FIXED')
      await this.#options.stored.remove(name)
      this.#servers.delete(name)
      await entry.server.close()
      await this.#options.parts.pins.forget('global', `mcp:${name}`)
    })
  }

  /** Brings the registered servers back; one that cannot be is told in the log and stays stored. */
  async #restore(): Promise<void> {
    const { stored, seal, warn } = this.#options
    const servers = await stored.all((name, error) =>
      warn('a stored MCP server is not readable', { mcpServer: name, err: error })
    )
    await Promise.all(
      servers.map(async ({ name, given }) => {
        try {
          await this.add(name, seal(given), 'registered')
        } catch (error) {
          warn('a stored MCP server is not started', { mcpServer: name, err: error })
        }
      })
    )
  }

  /** Ends every server, side by side, with its processes. */
  async close(): Promise<void> {
    this.#isClosed = true
    const servers = [...this.#servers.values()]
    await Promise.all(servers.map(({ server }) => server.close()))
    await this.#changes.idle()
  }
}
