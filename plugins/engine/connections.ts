import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Principal } from '../../server/auth/principal.ts'
import type { Config } from '../../server/config/schema.ts'
import { RequestError } from '../../server/errors.ts'
import { noteRequest } from './late-requests.ts'

declare module 'fastify' {
  interface FastifyInstance {
    connections: Connections
  }
}

/** Ends a long-lived connection; a WebSocket sends the code and reason (api.md §5), an event stream just ends. */
export type CloseConnection = (code: number, reason: string) => void

/** The sockets and event streams that are open: capped in number, and closed when their token ends. */
export class Connections {
  /** What holds for each connection and for all of them together. */
  readonly limits: Config['ws']
  readonly #open = new Map<CloseConnection, Principal>()
  readonly #perToken = new Map<string, number>()

  constructor(limits: Config['ws']) {
    this.limits = limits
  }

  get size(): number {
    return this.#open.size
  }

  /** Whose connections are open. */
  get principals(): Principal[] {
    return [...this.#open.values()]
  }

  /** Throws OVERLOADED or RATE_LIMITED when one more of this principal is too many; asked before an upgrade is answered. */
  assertRoom({ tokenId }: Principal): void {
    if (this.#open.size >= this.limits.maxSockets) throw new RequestError('OVERLOADED', 'Too many sockets are open.')
    if ((this.#perToken.get(tokenId) ?? 0) >= this.limits.maxSocketsPerToken) {
      throw new RequestError('RATE_LIMITED', 'This token has too many open sockets.')
    }
  }

  /** Counts a connection until the returned undo is called. */
  add(principal: Principal, close: CloseConnection): () => void {
    this.#open.set(close, principal)
    this.#count(principal, 1)
    return () => {
      if (this.#open.delete(close)) this.#count(principal, -1)
    }
  }

  /** Closes the connections of principals for which `isMeant` holds. */
  close(isMeant: (principal: Principal) => boolean, code: number, reason: string): void {
    for (const [close, principal] of this.#open) if (isMeant(principal)) close(code, reason)
  }

  #count({ tokenId }: Principal, change: 1 | -1): void {
    const count = (this.#perToken.get(tokenId) ?? 0) + change
    if (count === 0) this.#perToken.delete(tokenId)
    else this.#perToken.set(tokenId, count)
  }
}

/**
 * Decorates the server with `connections`. A token's connections are closed with 4403 when it is revoked, rotated or expires. The number of
 * header lines is bounded here too, as that is no option of the server's construction.
 */
export const connections = fp(
  async (fastify: FastifyInstance, { ws, http }: { ws: Config['ws']; http: Config['http'] }) => {
    fastify.server.prependListener('request', noteRequest)
    // Node drops what is beyond its number in silence: an Origin, or a second Host, that comes last. So it is to read one more.
    fastify.server.maxHeadersCount = http.maxHeadersCount + 1
    fastify.addHook('onRequest', ({ raw }, _reply, done) => {
      if (raw.rawHeaders.length > 2 * http.maxHeadersCount) {
        throw new RequestError('BAD_REQUEST', `A request has at most ${http.maxHeadersCount} header lines.`)
      }
      done()
    })
    const open = new Connections(ws)
    fastify.decorate('connections', open)
    const closeEnded = (reason: string): void => open.close((who) => !fastify.tokens.isLive(who), 4403, reason)
    const undo = fastify.tokens.onEnded(() => closeEnded('token revoked'))
    const expiry = setInterval(() => closeEnded('token expired'), Math.min(1_000, ws.pingIntervalMs))
    fastify.addHook('onClose', async () => {
      undo()
      clearInterval(expiry)
    })
  },
  { name: 'connections', fastify: '5.x', dependencies: ['auth'] }
)
