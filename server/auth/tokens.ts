import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { EventLog, Row } from '../event-log/event-log.ts'
import type { Principal, Role } from './principal.ts'

/** A token as it may be shown: everything but the token. `scope` is the one it reaches, with its descendants. */
export interface TokenInfo {
  readonly id: string
  readonly label: string
  readonly role: Role
  readonly scope: string
  /** Epoch milliseconds, as the other times here. */
  readonly createdAt: number
  readonly expiresAt?: number
  /** When a request last came with it; written at most once a minute, so a crash may lose the last minute. */
  readonly lastUsedAt?: number
  /** Until when the secret before the last rotation is accepted as well; absent once it is not. */
  readonly previousUntil?: number
}

export interface NewToken {
  label: string
  role: Role
  scope: string
  ttlMs?: number
}

/** `overlapMs`: how long the old secret stays good, 0 if absent. `ttlMs`: a new expiry, from now; the old one stays if absent. */
export interface Rotation {
  overlapMs?: number | undefined
  ttlMs?: number | undefined
}

/** Puts the text of a new secret where it belongs, in two steps: what must be there before it counts, and the rest once it does. */
type Deliver = (token: string) => Promise<() => Promise<void>>

/** A token that is neither revoked nor, as far as was looked, expired. */
interface LiveToken {
  info: TokenInfo
  hash: Buffer
  /** How often it was rotated since the start; sockets and tickets know by it which secret they came with. */
  secret: number
  previous?: { hash: Buffer; until: number }
  lastUsedAt?: number
  hasUnwrittenUse?: boolean
}

/** The principal of the preset token, which is never stored and cannot be revoked (api.md §9). */
const presetPrincipal: Principal = { tokenId: 'preset', label: 'preset', role: 'admin', scope: 'global' }

// As text, since a buffer that comes out of it is made outside of the heap, which takes longer than the hash.
const digest = (text: string): Buffer => Buffer.from(hash('sha256', text, 'binary'), 'binary')

/**
 * The tokens that are accepted (api.md §9). A stored token is `tw_<id>_<secret>`: its row is found by the id, which is no
 * secret, and its SHA-256 is compared in constant time. All live tokens are held in memory, so that a check costs no read.
 */
export class AccessTokens {
  readonly #log: EventLog
  readonly #preset: Buffer | undefined
  readonly #now: () => number
  readonly #live = new Map<string, LiveToken>()
  readonly #ended = new Set<() => void>()
  #lastRotation: Promise<unknown> = Promise.resolve()

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
      if (row.revoked_at === null) tokens.#live.set(row.id as string, toLive(row))
    }
    return tokens
  }

  /** Whether any stored token is good for everything. */
  get hasGlobalAdmin(): boolean {
    return this.list().some(({ role, scope }) => role === 'admin' && scope === 'global')
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
    if (!found) return undefined
    const isCurrent = timingSafeEqual(hash, found.hash)
    if (!isCurrent && !(found.previous && timingSafeEqual(hash, found.previous.hash))) return undefined
    const secret = isCurrent ? found.secret : found.secret - 1
    const { label, role, scope } = found.info
    const principal = { tokenId: found.info.id, label, role, scope, ...(secret > 0 && { secret }) }
    return this.isLive(principal) ? principal : undefined
  }

  /** Whether the token that a principal came with is still good, and the secret of it. */
  isLive({ tokenId, secret = 0 }: Pick<Principal, 'tokenId' | 'secret'>): boolean {
    if (tokenId === presetPrincipal.tokenId) return this.hasPreset
    const found = this.#live.get(tokenId)
    if (found === undefined || (found.info.expiresAt ?? Infinity) <= this.#now()) return false
    if (secret === found.secret) return true
    return secret === found.secret - 1 && found.previous !== undefined && found.previous.until > this.#now()
  }

  /** Notes that a request came with a token. It is one assignment, as it is made for each request; `writeUses` stores it. */
  noteUse(tokenId: string): void {
    const found = this.#live.get(tokenId)
    if (found === undefined) return
    found.lastUsedAt = this.#now()
    found.hasUnwrittenUse = true
  }

  /** Stores the uses that were noted since the last time, in one append. Rejects with `StoreUnavailableError`; the next time tries again. */
  async writeUses(): Promise<void> {
    const used = [...this.#live.values()].filter(({ hasUnwrittenUse }) => hasUnwrittenUse)
    if (used.length === 0) return
    for (const token of used) token.hasUnwrittenUse = false
    const writes = used.map(({ info: { id }, lastUsedAt }) => ({
      table: 'access_tokens' as const,
      op: 'put' as const,
      row: { id, last_used_at: lastUsedAt as number }
    }))
    try {
      await this.#log.append({ writes })
    } catch (error) {
      for (const token of used) token.hasUnwrittenUse = true
      throw error
    }
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
    const token = textOf(id)
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
      revoked_at: null,
      previous_hash: null,
      previous_until: null
    }
    await deliver?.(token)
    await this.#log.append({ writes: [{ table: 'access_tokens', op: 'insert', row }] })
    const live = toLive(row)
    this.#live.set(id, live)
    return { token, info: this.#show(live) }
  }

  /**
   * Gives a token a new secret; its id, and all that is known under it, stays. The old secret ends at once or after the overlap, the one
   * before it in any case. `deliver` gets the new text before it is stored, and what it returns runs after; no other rotation begins
   * before that is done. Undefined when there is no live token of this id. Rejects with `StoreUnavailableError`.
   */
  rotate(id: string, rotation: Rotation, deliver?: Deliver): Promise<{ token: string; info: TokenInfo } | undefined> {
    // One after the other: of two at a time, one would hand out a secret that the other has replaced already.
    const rotated = this.#lastRotation.then(() => this.#rotate(id, rotation, deliver))
    this.#lastRotation = rotated.catch(() => undefined)
    return rotated
  }

  async #rotate(id: string, { overlapMs = 0, ttlMs }: Rotation, deliver?: Deliver) {
    const found = this.#live.get(id)
    if (found === undefined || !this.isLive({ tokenId: id, secret: found.secret })) return undefined
    const token = textOf(id)
    const now = this.#now()
    const previous = overlapMs > 0 ? { hash: found.hash, until: now + overlapMs } : undefined
    const row = {
      id,
      hash: digest(token).toString('hex'),
      previous_hash: previous?.hash.toString('hex') ?? null,
      previous_until: previous?.until ?? null,
      ...(ttlMs !== undefined && { expires_at: now + ttlMs })
    }
    const settle = await deliver?.(token)
    await this.#log.append({ writes: [{ table: 'access_tokens', op: 'put', row }] })
    // It may have been revoked meanwhile.
    if (!this.#live.has(id)) return undefined
    found.hash = digest(token)
    found.secret += 1
    if (previous) found.previous = previous
    else delete found.previous
    if (ttlMs !== undefined) found.info = { ...found.info, expiresAt: now + ttlMs }
    this.#announceEnd()
    await settle?.()
    return { token, info: this.#show(found) }
  }

  /** All tokens that are neither revoked nor expired, oldest first. */
  list(): TokenInfo[] {
    return [...this.#live.values()]
      .filter(({ info, secret }) => this.isLive({ tokenId: info.id, secret }))
      .map((token) => this.#show(token))
  }

  /** Ends a token; false when there is none of this id. Listeners of `onEnded` run once it is stored. */
  async revoke(id: string): Promise<boolean> {
    if (!this.#live.has(id)) return false
    await this.#log.append({ writes: [{ table: 'access_tokens', op: 'put', row: { id, revoked_at: this.#now() } }] })
    const wasLive = this.#live.delete(id)
    if (wasLive) this.#announceEnd()
    return wasLive
  }

  /** Calls `listener` whenever a token was revoked or rotated, when `isLive` tells already who is left; returns the undo. */
  onEnded(listener: () => void): () => void {
    this.#ended.add(listener)
    return () => void this.#ended.delete(listener)
  }

  #announceEnd(): void {
    for (const listener of this.#ended) listener()
  }

  #show({ info, lastUsedAt, previous }: LiveToken): TokenInfo {
    return {
      ...info,
      ...(lastUsedAt !== undefined && { lastUsedAt }),
      ...(previous && previous.until > this.#now() && { previousUntil: previous.until })
    }
  }
}

const textOf = (id: string): string => `tw_${id}_${randomBytes(32).toString('base64url')}`

const hashIn = (hex: unknown): Buffer => Buffer.from(hex as string, 'hex')

function toLive(row: Row): LiveToken {
  const hasPrevious = row.previous_hash !== null
  return {
    info: toInfo(row),
    hash: hashIn(row.hash),
    secret: hasPrevious ? 1 : 0,
    ...(hasPrevious && { previous: { hash: hashIn(row.previous_hash), until: row.previous_until as number } }),
    ...(row.last_used_at !== null && { lastUsedAt: row.last_used_at as number })
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
