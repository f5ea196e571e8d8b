import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { EventLog, Row } from '../event-log/event-log.ts'
import type { Principal, Role } from './principal.ts'

/** A token as it may be shown: everything but the token. `scope` is the one it reaches, with its descendants. */
export interface TokenInfo {
  readonly id: string
  readonly label: string
  readonly role: Role
  readonly scope: string
  /** Epoch milliseconds. */
  readonly createdAt: number
  readonly expiresAt?: number
}

export interface NewToken {
  label: string
  role: Role
  scope: string
  ttlMs?: number
}

/** The principal of the preset token, which is never stored and cannot be revoked (api.md §9). */
const presetPrincipal: Principal = { tokenId: 'preset', label: 'preset', role: 'admin', scope: 'global' }

const digest = (text: string): Buffer => createHash('sha256').update(text).digest()

/**
 * The tokens that are accepted (api.md §9). A stored token is `tw_<id>_<secret>`: its row is found by the id, which is no
 * secret, and its SHA-256 is compared in constant time. All live tokens are held in memory, so that a check costs no read.
 */
export class AccessTokens {
  readonly #log: EventLog
  readonly #preset: Buffer | undefined
  readonly #now: () => number
  readonly #live = new Map<string, { info: TokenInfo; hash: Buffer }>()
  readonly #revoked = new Set<(tokenId: string) => void>()
  #isFirstStart = true

  private constructor(log: EventLog, preset: string | undefined, now: () => number) {
    this.#log = log
    this.#preset = preset === undefined ? undefined : digest(preset)
    this.#now = now
  }

  /** Reads the stored tokens. `preset` is the text of a token that is valid as long as this object lives. */
  static async open(
    log: EventLog,
    { preset, now = Date.now }: { preset?: string; now?: () => number } = {}
  ): Promise<AccessTokens> {
    const tokens = new AccessTokens(log, preset, now)
    for (const row of await log.rows('access_tokens', {}, 1_000_000)) {
      tokens.#isFirstStart = false
      if (row.revoked_at === null)
        tokens.#live.set(row.id as string, { info: toInfo(row), hash: Buffer.from(row.hash as string, 'hex') })
    }
    return tokens
  }

  /** Whether no token was ever stored here; then an admin token is to be made, unless one is preset. */
  get isFirstStart(): boolean {
    return this.#isFirstStart
  }

  get hasPreset(): boolean {
    return this.#preset !== undefined
  }

  /** Whom a token stands for; undefined for a text that is no token, or none any more. */
  verify(token: string): Principal | undefined {
    const hash = digest(token)
    if (this.#preset && timingSafeEqual(hash, this.#preset)) return presetPrincipal
    const id = /^tw_([0-9a-f]{16})_/.exec(token)?.[1]
    const found = id === undefined ? undefined : this.#live.get(id)
    if (!found || !timingSafeEqual(hash, found.hash)) return undefined
    const { label, role, scope } = found.info
    return this.isLive(found.info.id) ? { tokenId: found.info.id, label, role, scope } : undefined
  }

  /** Whether the token that a principal came with is still good. */
  isLive(tokenId: string): boolean {
    if (tokenId === presetPrincipal.tokenId) return this.hasPreset
    const found = this.#live.get(tokenId)
    return found !== undefined && (found.info.expiresAt ?? Infinity) > this.#now()
  }

  /**
   * Makes a token; it is valid from when the promise resolves. `deliver` gets the token before its row is stored: a token whose
   * delivery fails never existed. Rejects with `StoreUnavailableError`.
   */
  async create(
    { label, role, scope, ttlMs }: NewToken,
    deliver?: (token: string) => Promise<void>
  ): Promise<{ token: string; info: TokenInfo }> {
    const id = randomBytes(8).toString('hex')
    const token = `tw_${id}_${randomBytes(32).toString('base64url')}`
    const createdAt = this.#now()
    const row = {
      id,
      hash: digest(token).toString('hex'),
      role,
      scope,
      label,
      created_at: createdAt,
      expires_at: ttlMs === undefined ? null : createdAt + ttlMs,
      last_used_at: null,
      revoked_at: null
    }
    await deliver?.(token)
    await this.#log.append({ writes: [{ table: 'access_tokens', op: 'insert', row }] })
    const info = toInfo(row)
    this.#live.set(id, { info, hash: digest(token) })
    this.#isFirstStart = false
    return { token, info }
  }

  /** All tokens that are neither revoked nor expired, oldest first. */
  list(): TokenInfo[] {
    return [...this.#live.values()].map(({ info }) => info).filter(({ id }) => this.isLive(id))
  }

  /** Ends a token; false when there is none of this id. Listeners of `onRevoked` run once it is stored. */
  async revoke(id: string): Promise<boolean> {
    if (!this.#live.has(id)) return false
    await this.#log.append({ writes: [{ table: 'access_tokens', op: 'put', row: { id, revoked_at: this.#now() } }] })
    const wasLive = this.#live.delete(id)
    for (const listener of wasLive ? this.#revoked : []) listener(id)
    return wasLive
  }

  /** Calls `listener` with the id of each token that is revoked; returns the undo. */
  onRevoked(listener: (tokenId: string) => void): () => void {
    this.#revoked.add(listener)
    return () => void this.#revoked.delete(listener)
  }
}

function toInfo(row: Row): TokenInfo {
  return {
    id: row.id as string,
    label: (row.label as string | null) ?? '',
    role: row.role as Role,
    scope: (row.scope as string | null) ?? 'global',
    createdAt: row.created_at as number,
    ...(row.expires_at === null ? {} : { expiresAt: row.expires_at as number })
  }
}
