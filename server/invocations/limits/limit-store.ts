import type { EventLog, Row, TableWrite } from '../../event-log/event-log.ts'
import type { JsonValue } from '../../json/lossless.ts'
import { parseJson } from '../../json/parse-text.js'
import { stringifyJson } from '../../json/serialize.ts'
import type { Scope } from '../../scopes/scope.ts'
import type { ScopeTree } from '../../scopes/scope-tree.ts'
import { RequestError } from '../../errors.ts'
import type { ScopeLimits } from './limit-set.ts'
import type { Meter, StoredUse } from './meter.ts'
import type { Meters } from './meters.ts'

// Rows of `registrations`, so that they go with their scope whoever disposes it.
const setKind = 'limits'
const useKind = 'limit-use'

const maxRows = 1_000_000

export interface LimitStoreOptions {
  log: EventLog
  tree: ScopeTree
  meters: Meters
  /** Runs a change of what clients registered, one after another with those of the scopes themselves. */
  inTurn: <T>(change: () => Promise<T>) => Promise<T>
  /** Epoch milliseconds. */
  wall: () => number
  /** The clock of the meters. */
  now: () => number
  /** Other limits are in force than before. */
  onChange: () => void
  warn: (message: string, details: Record<string, unknown>) => void
}

/**
 * Keeps the limits that clients set, and from time to time what is used of the rates that count over 10 s and more: what a crash forgets
 * was admitted since the last time, and a restart forgets nothing.
 */
export class LimitStore {
  readonly #options: LimitStoreOptions

  constructor(options: LimitStoreOptions) {
    this.#options = options
  }

  /** Brings back what is stored; once, when all scopes are there. Rows of scopes that are not there stay as they are. */
  async restore(): Promise<void> {
    const { log, tree, meters, warn } = this.#options
    for (const row of await log.rows('registrations', { kind: setKind }, maxRows)) {
      const scope = tree.get(String(row['scope']))
      if (scope === undefined) continue
      try {
        meters.set(scope, dataOf(row) as ScopeLimits)
      } catch (error) {
        warn('the stored limits of a scope are not readable', { scope: scope.id, err: error })
      }
    }
    const over: TableWrite[] = []
    for (const row of await log.rows('registrations', { kind: useKind }, maxRows)) {
      if (!this.#restoreUse(row)) over.push({ table: 'registrations', op: 'delete', row: keyOf(row) })
    }
    if (over.length > 0) await log.append({ writes: over })
  }

  /**
   * Sets the limits of a scope in place of those set before; each member goes before the configured one. In force when the promise
   * resolves. Rejects with `UNKNOWN_SCOPE` if the scope was disposed meanwhile, or with `StoreUnavailableError`.
   */
  set(scope: Scope, limits: ScopeLimits): Promise<void> {
    const { log, tree, meters, inTurn, wall, onChange } = this.#options
    return inTurn(async () => {
      if (!tree.isLive(scope)) throw new RequestError('UNKNOWN_SCOPE', `There is no scope "${scope.id}".`)
      const key = { kind: setKind, scope: scope.id, name: '' }
      const isNone = Object.keys(limits).length === 0
      const write: TableWrite = isNone
        ? { table: 'registrations', op: 'delete', row: key }
        : put(key, limits as JsonValue, wall())
      await log.append({ writes: [write] })
      meters.set(scope, limits)
      onChange()
    })
  }

  /** Stores what is used of the rates, where it has changed. Rejects with `StoreUnavailableError`; then the next time it is tried again. */
  async flush(): Promise<void> {
    const { log, meters, now, wall } = this.#options
    const dirty = this.#dirty()
    if (dirty.length > 0) {
      const writes = dirty.map(({ key, meter }) =>
        put({ kind: useKind, ...key }, meter.storedUse(now()) as unknown as JsonValue, wall())
      )
      for (const { meter } of dirty) meter.isDirty = false
      try {
        await log.append({ writes })
      } catch (error) {
        for (const { meter } of dirty) meter.isDirty = true
        throw error
      }
    }
    meters.forgetIdleTokens()
  }

  #dirty(): { key: { scope: string; name: string }; meter: Meter }[] {
    const { tree, meters } = this.#options
    const ofScopes = tree
      .all()
      .flatMap((scope) =>
        meters.ofScope(scope).map((meter) => ({ key: { scope: scope.id, name: nameOf(meter) }, meter }))
      )
    const ofTokens = [...meters.tokens()].map(([id, meter]) => ({ key: { scope: '', name: `token:${id}` }, meter }))
    return [...ofScopes, ...ofTokens].filter(({ meter }) => meter.isDirty)
  }

  /** False when nothing of it counts any more. */
  #restoreUse(row: Row): boolean {
    const { now, wall, warn } = this.#options
    try {
      const uses = dataOf(row) as unknown as StoredUse[]
      const agoMs = wall() - Number(row['created_at'])
      const meter = this.#meterOf(row)
      if (meter === undefined) return true
      meter.restore(uses, agoMs, now())
      return meter.storedUse(now()).some(({ used }) => used > 0)
    } catch (error) {
      warn('what was used of a limit is not readable', { scope: row['scope'], name: row['name'], err: error })
      return false
    }
  }

  /** Undefined for a scope or tool that has no meter now: what was used of it waits. */
  #meterOf({ scope: id, name }: Row): Meter | undefined {
    const { tree, meters } = this.#options
    if (id === '') return meters.ofToken(String(name).slice('token:'.length))
    const scope = tree.get(String(id))
    return scope && meters.ofScope(scope).find((meter) => nameOf(meter) === name)
  }
}

const nameOf = ({ of }: Meter): string => (of.tool === undefined ? of.kind : `tool:${of.tool}`)

const dataOf = (row: Row): JsonValue => parseJson(String(row['data']))

const keyOf = ({ kind, scope, name }: Row) => ({ kind: String(kind), scope: String(scope), name: String(name) })

const put = (key: { kind: string; scope: string; name: string }, data: JsonValue, at: number): TableWrite => ({
  table: 'registrations',
  op: 'put',
  row: { ...key, data: stringifyJson(data), created_at: at }
})
