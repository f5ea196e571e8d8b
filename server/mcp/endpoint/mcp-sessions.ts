import { randomUUID } from 'node:crypto'
import { RequestError } from '../../errors.ts'
import type { Scope } from '../../scopes/scope.ts'
import type { McpSession, McpSessionParts, Owner } from './mcp-session.ts'

export interface McpSessionLimits {
  readonly maxSessions: number
  readonly maxSessionsPerToken: number
  readonly idleMs: number
}

/** Changes of what a scope shows come in bursts; clients are told of the whole. */
const noticeDelayMs = 50

/** The MCP sessions that are open: each its maker's alone, bounded in number, and ended when nobody uses it (reliability.md §1.3). */
export class McpSessions {
  readonly #parts: McpSessionParts
  readonly #limits: McpSessionLimits
  readonly #open = new Map<string, McpSession>()
  #notice: NodeJS.Timeout | undefined

  constructor(parts: McpSessionParts, limits: McpSessionLimits) {
    this.#parts = parts
    this.#limits = limits
  }

  get size(): number {
    return this.#open.size
  }

  /** The session of this id, if this token made it in this scope; else there is none, with `UNKNOWN_SESSION`. */
  find(id: string, scope: Scope, owner: Owner): McpSession {
    const session = this.#open.get(id)
    if (session === undefined || session.owner.tokenId !== owner.tokenId || session.scope !== scope) {
      throw new RequestError('UNKNOWN_SESSION')
    }
    session.usedAt = performance.now()
    session.owner = owner
    return session
  }

  /**
   * A new session, which waits for its initialize request. One too many takes the place of the same token's longest unused one; where all
   * are in use it throws `RATE_LIMITED`, or `OVERLOADED` when it is the server that is full.
   */
  async open(scope: Scope, owner: Owner): Promise<McpSession> {
    // Loaded by the first client: the protocol's schemas take a third of a second, which no start without clients should.
    const { McpSession } = await import('./mcp-session.ts')
    const own = [...this.#open.values()].filter((session) => session.owner.tokenId === owner.tokenId)
    if (own.length >= this.#limits.maxSessionsPerToken || this.#open.size >= this.#limits.maxSessions) {
      const unused = own.filter(({ isIdle }) => isIdle).toSorted((a, b) => a.usedAt - b.usedAt)[0]
      if (unused !== undefined) await this.#end(unused)
      else if (own.length >= this.#limits.maxSessionsPerToken) {
        throw new RequestError('RATE_LIMITED', 'This token has too many MCP sessions that are in use.')
      } else throw new RequestError('OVERLOADED', 'Too many MCP sessions are open.')
    }
    // Nobody can guess it, and the log has it under the same name.
    const id = `mcp-${randomUUID()}`
    const session = new McpSession(this.#parts, { id, scope, owner }, () => this.#open.delete(id))
    this.#open.set(id, session)
    await session.start()
    return session
  }

  /** Ends the sessions that nobody has used for too long, and those that `isOver` names. */
  async sweep(isOver: (session: McpSession) => boolean): Promise<void> {
    const oldest = performance.now() - this.#limits.idleMs
    const over = [...this.#open.values()].filter(
      (session) => isOver(session) || (session.isIdle && session.usedAt < oldest)
    )
    await Promise.all(over.map((session) => this.#end(session)))
  }

  /** What can be called has changed somewhere: sessions of scopes that are gone end, the others may be told. */
  noticeChange(isLive: (scope: Scope) => boolean): void {
    this.#parts.lists.forget()
    for (const session of this.#open.values()) if (!isLive(session.scope)) void this.#endWhenQuiet(session)
    this.#notice ??= setTimeout(() => {
      this.#notice = undefined
      for (const session of this.#open.values()) void session.noticeChange()
    }, noticeDelayMs).unref()
  }

  /** Takes no more requests for any session; each ends when its calls are answered. */
  async closeWhenQuiet(): Promise<void> {
    await Promise.all([...this.#open.values()].map((session) => this.#endWhenQuiet(session)))
  }

  async close(): Promise<void> {
    clearTimeout(this.#notice)
    await Promise.all([...this.#open.values()].map((session) => this.#end(session)))
  }

  async #endWhenQuiet(session: McpSession): Promise<void> {
    this.#open.delete(session.id)
    await session.closeWhenQuiet()
  }

  async #end(session: McpSession): Promise<void> {
    this.#open.delete(session.id)
    await session.close()
  }
}
