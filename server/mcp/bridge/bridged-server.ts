import type { JsonObject } from '../../json/lossless.ts'
import type { RunContext } from '../../pipeline/execution.ts'
import type { DefinitionPins, PinOrigin, QuarantinedTool } from '../../registrations/definition-pins.ts'
import { InTurn } from '../../registrations/in-turn.ts'
import type { Scope } from '../../scopes/scope.ts'
import type { Registry } from '../../tools/registry.ts'
import { briefly, McpBridgeError, SessionExpiredError, unlessAborted } from './bridge-error.ts'
import { type BridgedTool, bridgedTool, toolDefinition } from './bridged-tool.ts'
import { Generation } from './generation.ts'
import { type BridgeClock, Lifeline, type LifelineState } from './lifeline.ts'
import type { Link, ServerInfo } from './link.ts'
import { MessagePace } from './message-pace.ts'
import type { LinkParts } from './open-link.ts'
import type { ListLimits } from './raw-tool.ts'
import { ResyncPace } from './resync-pace.ts'
import { ScopeLinks } from './scope-links.ts'
import { concealer, type ServerDefinition } from './server-definition.ts'

export interface BridgeLimits extends ListLimits {
  /** Connections of one server at a time. */
  readonly maxLinks: number
  /** Between two readings of the list that a server asks for. */
  readonly listChangedIntervalMs: number
}

export interface BridgedServerParts {
  readonly links: LinkParts
  readonly registry: Registry
  readonly pins: DefinitionPins
  readonly limits: BridgeLimits
  readonly clock: BridgeClock
  readonly isLive: (scope: Scope) => boolean
  /** What a call hands on of the trace that it is part of, for its `_meta`. */
  readonly traceOf?: (exec: RunContext) => Readonly<Record<string, string>>
  /** Its state or its tools are others now. */
  readonly onChange: () => void
}

/** How a server is doing. */
export interface ServerState {
  readonly state: LifelineState
  readonly tools: readonly { name: string; tool: string }[]
  readonly quarantined: readonly QuarantinedTool[]
  readonly server?: ServerInfo
  readonly lastError?: string
  /** Open connections, those of scopes included. */
  readonly connections: number
}

/** What may be pinned for a server, in all its time: several times what it may list. */
const pinsPerTool = 4

/** One MCP server: its connections, and its tools in the global scope (backends.md §10). */
export class BridgedServer {
  readonly definition: ServerDefinition
  readonly #parts: BridgedServerParts
  readonly #conceal: (text: string) => string
  readonly #generation: Generation
  readonly #lifeline: Lifeline
  readonly #scopeLinks: ScopeLinks
  readonly #syncs = new InTurn()
  /** Not the same turns as of `#syncs`: who accepts a tool would wait for a server that is slow to list. */
  readonly #changes = new InTurn()
  readonly #pace: ResyncPace
  readonly #messages: MessagePace
  readonly #over = new AbortController()
  readonly #undos: (() => void)[]
  #listed: readonly BridgedTool[] = []

  constructor(definition: ServerDefinition, parts: BridgedServerParts) {
    const { registry, pins, clock, limits } = parts
    this.definition = definition
    this.#parts = parts
    this.#conceal = concealer(definition)
    this.#generation = new Generation(registry, registry.globalScope)
    this.#lifeline = new Lifeline({
      open: () => this.#connect(),
      policy: definition.reconnect,
      clock,
      tell: (error) => this.#tell(error),
      onState: parts.onChange,
      onStopped: () => {
        this.#generation.clear()
        parts.onChange()
      }
    })
    this.#scopeLinks = new ScopeLinks({ open: () => this.#open(() => {}), max: limits.maxLinks - 1 })
    this.#messages = new MessagePace(parts.links.messagesPerSecond)
    this.#pace = new ResyncPace(limits.listChangedIntervalMs, clock, () => this.resync())
    this.#undos = [
      pins.onAccepted(async (scope, origin) => {
        if (scope === this.#origin.scope && origin === this.#origin.origin) await this.#reapply()
      }),
      registry.onChange(() => this.#scopeLinks.prune(parts.isLive))
    ]
  }

  get state(): ServerState {
    const { state, link, lastError } = this.#lifeline
    return {
      state,
      tools: this.#generation.tools,
      quarantined: this.#parts.pins.quarantined(this.#origin.scope, this.#origin.origin),
      ...(link === undefined ? {} : { server: link.server }),
      ...(lastError === undefined ? {} : { lastError }),
      connections: this.#scopeLinks.count + (link === undefined ? 0 : 1)
    }
  }

  /** The first connection and the first list. Rejects when that fails; the reconnect policy goes on all the same. */
  async start(): Promise<void> {
    await this.#lifeline.start()
  }

  /** Reads the list again. What fails leaves the tools as they were. */
  async resync(): Promise<void> {
    const { link } = this.#lifeline
    if (link === undefined || this.#over.signal.aborted) return
    try {
      await this.#sync(link)
    } catch (error) {
      if (error instanceof SessionExpiredError) await this.#lifeline.renew(link).catch(() => {})
      else this.#lifeline.note(error)
    }
    this.#parts.onChange()
  }

  /** Ends the connections, with their processes, and takes the tools away. */
  async close(): Promise<void> {
    this.#over.abort(new Error('the bridge to this server is closed'))
    for (const undo of this.#undos) undo()
    this.#pace.close()
    this.#generation.clear()
    await Promise.all([this.#lifeline.close(), this.#scopeLinks.close()])
    await this.#syncs.idle()
    await this.#changes.idle()
    this.#generation.clear()
  }

  get #origin(): PinOrigin {
    const { drift, name } = this.definition
    const maxNames = this.#parts.limits.maxTools * pinsPerTool
    return { scope: this.#parts.registry.globalScope.id, origin: `mcp:${name}`, drift, maxNames }
  }

  #tell(error: unknown): string {
    return this.#conceal(briefly(error, 1_000))
  }

  async #open(onListChanged: () => void): Promise<Link> {
    const { signal } = this.#over
    // Loaded with the first server: the protocol's schemas take a third of a second, which no start without servers should.
    const { openLink } = await import('./open-link.ts')
    const rest = { signal, onListChanged, conceal: this.#conceal, pace: this.#messages }
    return openLink(this.definition, this.#parts.links, rest)
  }

  async #connect(): Promise<Link> {
    const link = await this.#open(() => this.#pace.ask())
    try {
      await this.#sync(link)
      return link
    } catch (error) {
      await link.end()
      throw error instanceof SessionExpiredError ? new Error('it gave up its session at once', { cause: error }) : error
    }
  }

  #sync(link: Link): Promise<void> {
    return this.#syncs.run(async () => {
      const raw = await link.listTools(this.#parts.limits)
      const tools = raw.map((tool) => bridgedTool(this.definition.name, tool))
      await this.#changes.run(() => this.#apply(tools))
    })
  }

  /** With what was listed last: what is quarantined has changed. */
  async #reapply(): Promise<void> {
    try {
      await this.#changes.run(() => this.#apply(this.#listed))
    } catch (error) {
      this.#lifeline.note(error)
    }
    this.#parts.onChange()
  }

  async #apply(tools: readonly BridgedTool[]): Promise<void> {
    const definitions = new Map(tools.map(({ publicName, pinned }) => [publicName, pinned]))
    const admitted = await this.#parts.pins.judge(this.#origin, definitions)
    this.#over.signal.throwIfAborted()
    this.#listed = tools
    // Given up meanwhile: what is accepted then is there when it is started again.
    if (this.#lifeline.state === 'stopped') return
    this.#generation.swap(
      tools.filter(({ publicName }) => admitted.has(publicName)),
      (tool) => toolDefinition(this.definition.name, tool, (...call) => this.#call(...call))
    )
  }

  async #call(tool: BridgedTool, args: JsonObject, exec: RunContext): Promise<JsonObject> {
    const { registry } = this.#parts
    const scope = exec.agent?.scope ?? registry.globalScope
    const first = await unlessAborted(exec.signal, this.#linkFor(scope))
    try {
      return await this.#ask(first, tool, args, exec)
    } catch (error) {
      if (!(error instanceof SessionExpiredError)) throw error
      const next = await unlessAborted(exec.signal, this.#renewed(scope, first))
      return await this.#ask(next, tool, args, exec).catch((again: unknown) => {
        throw again instanceof SessionExpiredError ? unavailable('it gives up its sessions at once') : again
      })
    }
  }

  #ask(link: Link, tool: BridgedTool, args: JsonObject, exec: RunContext): Promise<JsonObject> {
    // A server that was connected anew may mean something else by it now.
    if (!this.#generation.has(tool)) throw unavailable(`it has no tool ${JSON.stringify(tool.raw.name)} any more`)
    const { signal, progress } = exec
    const meta = this.#parts.traceOf?.(exec) ?? {}
    const { toolCallTimeoutMs: timeoutMs } = this.definition
    return link.call(tool.raw.name, args, { timeoutMs, signal, onProgress: progress, meta })
  }

  async #linkFor(scope: Scope): Promise<Link> {
    const main = await this.#lifeline.ready()
    return this.#isMain(scope, main) ? main : this.#scopeLink(() => this.#scopeLinks.of(scope))
  }

  async #renewed(scope: Scope, old: Link): Promise<Link> {
    const main = await this.#lifeline.ready()
    if (this.#isMain(scope, main)) return this.#lifeline.renew(old)
    // Its notices come over the main connection, whose session is likely to be over too.
    this.#pace.ask()
    return this.#scopeLink(() => this.#scopeLinks.renew(scope, old))
  }

  /** The main connection serves the global scope, and all of them unless the server keeps sessions. */
  #isMain(scope: Scope, main: Link): boolean {
    const { sharing, transport } = this.definition
    const isPerScope =
      sharing === undefined ? transport === 'streamable-http' && main.hasSession : sharing === 'per-scope'
    return !isPerScope || scope === this.#parts.registry.globalScope
  }

  async #scopeLink(open: () => Promise<Link>): Promise<Link> {
    try {
      return await open()
    } catch (error) {
      throw error instanceof McpBridgeError ? error : unavailable(this.#tell(error))
    }
  }
}

const unavailable = (reason: string): McpBridgeError =>
  new McpBridgeError('MCP_UNAVAILABLE', `the MCP server is not available: ${reason}`, { effect: 'none' })
