import type { Scope } from '../../scopes/scope.ts'
import { McpBridgeError } from './bridge-error.ts'
import type { Link } from './link.ts'

export interface ScopeLinksOptions {
  readonly open: () => Promise<Link>
  /** Connections of one server at a time. */
  readonly max: number
}

/** A connection for each scope, so that what a server remembers of one is not seen by another (F63). Made when first needed. */
export class ScopeLinks {
  readonly #options: ScopeLinksOptions
  readonly #links = new Map<Scope, Promise<Link>>()
  #isClosed = false

  constructor(options: ScopeLinksOptions) {
    this.#options = options
  }

  get count(): number {
    return this.#links.size
  }

  /** The scope's own link, one for all who ask at a time (F15). Rejects with `OVERLOADED`, or with why it cannot be made. */
  of(scope: Scope): Promise<Link> {
    const known = this.#links.get(scope)
    if (known !== undefined) return known
    const { open, max } = this.#options
    if (this.#isClosed || this.#links.size >= max) {
      const message = this.#isClosed
        ? 'the bridge is closed'
        : `the MCP server has ${max} connections already, the most there may be`
      return Promise.reject(
        new McpBridgeError(this.#isClosed ? 'MCP_UNAVAILABLE' : 'OVERLOADED', message, { effect: 'none' })
      )
    }
    const made = open()
    this.#links.set(scope, made)
    const forget = (): void => {
      if (this.#links.get(scope) === made) this.#links.delete(scope)
    }
    made.then((link) => link.closed.then(forget), forget)
    return made
  }

  /** A new link in place of one whose session is over. */
  async renew(scope: Scope, old: Link): Promise<Link> {
    const known = this.#links.get(scope)
    const current = await known?.catch(() => undefined)
    // Another who was turned away as well has made it by now.
    if (this.#links.get(scope) !== known || (current !== undefined && current !== old)) return this.of(scope)
    this.#links.delete(scope)
    const made = this.of(scope)
    await Promise.allSettled([old.end(), made])
    return made
  }

  /** Ends the links of scopes that are gone. */
  prune(isLive: (scope: Scope) => boolean): void {
    for (const [scope, link] of this.#links) {
      if (isLive(scope)) continue
      this.#links.delete(scope)
      link.then((open) => open.end()).catch(() => {})
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const links = [...this.#links.values()]
    this.#links.clear()
    await Promise.allSettled(links.map(async (link) => (await link).end()))
  }
}
