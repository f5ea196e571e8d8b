import { createHash, randomBytes } from 'node:crypto'
import { RequestError } from '../errors.ts'
import type { Principal } from './principal.ts'

/**
 * Single-use tickets by which a browser, which cannot set headers, authenticates a WebSocket (reliability.md §1.2). A ticket is
 * kept by its hash, so that finding it leaks nothing of it through timing.
 */
export class Tickets {
  readonly #ttlMs: number
  readonly #maxPerToken: number
  readonly #now: () => number
  /** In order of expiry, which is the order of issue. */
  readonly #open = new Map<string, { principal: Principal; expiresAt: number }>()

  /** `now` is a monotonic clock in milliseconds: no change of the system's time lengthens the life of a ticket. */
  constructor(options: { ttlMs: number; maxPerToken: number; now?: () => number }) {
    this.#ttlMs = options.ttlMs
    this.#maxPerToken = options.maxPerToken
    this.#now = options.now ?? (() => performance.now())
  }

  /** For whom tickets are kept. */
  get principals(): Principal[] {
    this.#dropExpired()
    return [...this.#open.values()].map(({ principal }) => principal)
  }

  /** A new ticket for `principal`, already narrowed to the scope that the ticket is for. Throws RATE_LIMITED. */
  issue(principal: Principal): { ticket: string; expiresInMs: number } {
    this.#dropExpired()
    let unused = 0
    for (const open of this.#open.values()) if (open.principal.tokenId === principal.tokenId) unused++
    if (unused >= this.#maxPerToken) throw new RequestError('RATE_LIMITED', 'This token has too many unused tickets.')
    const ticket = randomBytes(32).toString('base64url')
    this.#open.set(hashOf(ticket), { principal, expiresAt: this.#now() + this.#ttlMs })
    return { ticket, expiresInMs: this.#ttlMs }
  }

  /** Whom the ticket stands for, once; undefined when it is unknown, used or expired. */
  redeem(ticket: string): Principal | undefined {
    this.#dropExpired()
    const hash = hashOf(ticket)
    const found = this.#open.get(hash)
    this.#open.delete(hash)
    return found?.principal
  }

  #dropExpired(): void {
    for (const [hash, { expiresAt }] of this.#open) {
      if (expiresAt > this.#now()) return
      this.#open.delete(hash)
    }
  }
}

const hashOf = (ticket: string): string => createHash('sha256').update(ticket).digest('hex')
