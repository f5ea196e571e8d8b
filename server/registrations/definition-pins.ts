import { createHash } from 'node:crypto'
import { RequestError } from '../errors.ts'
import type { EventLog, Row, TableWrite } from '../event-log/event-log.ts'
import { canonicalJson } from '../json/canonical.ts'
import type { JsonValue } from '../json/lossless.ts'
import { parseJson } from '../json/parse-text.js'
import { stringifyJson } from '../json/serialize.ts'
import { driftOf, type PinnedDefinition } from './definition-drift.ts'
import { Slices } from '../threads/slices.ts'
import { InTurn } from './in-turn.ts'

/** Whose definitions they are: `origin` such as `mcp:files` or `openapi:https://…`, the tools being registered in `scope`. */
export interface PinOrigin {
  readonly scope: string
  readonly origin: string
  /** What a drift does: it hides the tool until somebody accepts it, or it is only logged. */
  readonly drift: 'quarantine' | 'log'
  /** Names that may ever be pinned for this origin; what is beyond is quarantined. */
  readonly maxNames: number
}

/** A tool that is hidden, with what people need to decide. */
export interface QuarantinedTool {
  readonly name: string
  /** Of the definition that is waiting: what `accept` may name. */
  readonly hash: string
  readonly changes: readonly string[]
  /** Epoch milliseconds. */
  readonly since: number
}

/** Told of a tool that was released. What it promises must not reject. */
type AcceptListener = (scope: string, origin: string, name: string) => Promise<void>

export interface DefinitionPinsOptions {
  log: EventLog
  /** Epoch milliseconds. */
  now: () => number
  warn: (message: string, details: Record<string, unknown>) => void
}

interface Waiting {
  readonly definition: PinnedDefinition
  readonly hash: string
  readonly changes: readonly string[]
  readonly since: number
}

interface Pin {
  readonly scope: string
  readonly name: string
  readonly origin: string
  readonly definition: PinnedDefinition
  readonly hash: string
  readonly waiting?: Waiting
}

const kind = 'definition-pin'
const maxRows = 1_000_000

/**
 * Remembers how each tool that a foreign source defines was first seen, so that one that later means something else is not called
 * unawares (reliability.md §1.3). A source asks `judge` about all its definitions each time it reads them, registers those that come
 * back, and hears of `onAccepted` when an operator released one. Pins are stored: they survive restarts, and a tool that was gone.
 *
 * Added optional properties and mere wording pass: the pin is moved on, and the log says so. A changed description, and whatever else
 * changes what a call means, quarantines the tool. One that comes back as it was pinned is free again.
 */
export class DefinitionPins {
  readonly #options: DefinitionPinsOptions
  readonly #pins = new Map<string, Pin>()
  readonly #listeners = new Set<AcceptListener>()
  readonly #changes = new InTurn()

  private constructor(options: DefinitionPinsOptions) {
    this.#options = options
  }

  static async open(options: DefinitionPinsOptions): Promise<DefinitionPins> {
    const pins = new DefinitionPins(options)
    for (const row of await options.log.rows('registrations', { kind }, maxRows)) {
      try {
        const pin = read(row)
        pins.#pins.set(keyOf(pin.scope, pin.name), pin)
      } catch (error) {
        options.warn('a stored pin is not readable', { scope: row['scope'], tool: row['name'], err: error })
      }
    }
    return pins
  }

  /**
   * The names, of those given, that may be registered; what is stored of them is durable then. Rejects with `StoreUnavailableError`,
   * and then nothing has changed. A name that another origin pinned is judged anew, as its tool is another one.
   */
  judge(origin: PinOrigin, definitions: ReadonlyMap<string, PinnedDefinition>): Promise<ReadonlySet<string>> {
    return this.#changes.run(async () => {
      const admitted = new Set<string>()
      const changed: Pin[] = []
      const slices = new Slices()
      let known = [...this.#pins.values()].filter((pin) => isOf(pin, origin.scope, origin.origin)).length
      for (const [name, definition] of definitions) {
        const before = this.#pins.get(keyOf(origin.scope, name))
        const isKnown = before !== undefined && before.origin === origin.origin
        if (!isKnown && known >= origin.maxNames) {
          this.#options.warn('a tool is left out: its source has named too many', { origin: origin.origin, tool: name })
          continue
        }
        if (!isKnown) known += 1
        const next = isKnown ? this.#judged(before, definition, origin) : pinOf(origin, name, definition)
        if (next !== before) changed.push(next)
        if (next.waiting === undefined) admitted.add(name)
        await slices.next()
      }
      await this.#store(changed)
      return admitted
    })
  }

  /** The tools of an origin that are hidden, by name. */
  quarantined(scope: string, origin: string): QuarantinedTool[] {
    return [...this.#pins.values()]
      .filter((pin) => isOf(pin, scope, origin))
      .flatMap(({ name, waiting }) =>
        waiting === undefined ? [] : [{ name, hash: waiting.hash, changes: waiting.changes, since: waiting.since }]
      )
      .sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  /**
   * Releases a tool as it is now (api.md §6). With `hash` only if it is still what the operator looked at. Throws `NOT_FOUND`,
   * `APPROVAL_STALE`, or `StoreUnavailableError`.
   */
  async accept(scope: string, name: string, hash?: string): Promise<void> {
    const followed = await this.#changes.run(async () => {
      const pin = this.#pins.get(keyOf(scope, name))
      if (pin?.waiting === undefined) throw new RequestError('NOT_FOUND', 'No tool of this name is quarantined here.')
      const { waiting, ...rest } = pin
      if (hash !== undefined && hash !== waiting.hash) throw new RequestError('APPROVAL_STALE')
      await this.#store([{ ...rest, definition: waiting.definition, hash: waiting.hash }])
      return [...this.#listeners].map((listener) => listener(scope, pin.origin, name))
    })
    // Not in turn: what listeners do may ask for a turn itself.
    await Promise.all(followed)
  }

  /** Hears of each tool that is released; its source then registers it, which `accept` waits for where it is told. Returns the undo. */
  onAccepted(listener: AcceptListener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Forgets an origin, or some of its names: somebody who may took the tools away, and may bring in others. */
  forget(scope: string, origin: string, names?: readonly string[]): Promise<void> {
    return this.#changes.run(async () => {
      const gone = [...this.#pins.values()].filter(
        (pin) => isOf(pin, scope, origin) && (names === undefined || names.includes(pin.name))
      )
      if (gone.length === 0) return
      const writes = gone.map(({ name }): TableWrite => ({
        table: 'registrations',
        op: 'delete',
        row: { kind, scope, name }
      }))
      await this.#options.log.append({ writes })
      for (const { name } of gone) this.#pins.delete(keyOf(scope, name))
    })
  }

  /** What is stored about a scope goes with it, and its id may be another's by now: what is known here of those ids goes too. */
  dropScopes(ids: readonly string[]): Promise<void> {
    return this.#changes.run(async () => {
      for (const [key, { scope }] of this.#pins) if (ids.includes(scope)) this.#pins.delete(key)
    })
  }

  #judged(before: Pin, definition: PinnedDefinition, origin: PinOrigin): Pin {
    const { warn, now } = this.#options
    const hash = hashOf(before.name, definition)
    if (hash === before.hash) {
      const { waiting, ...free } = before
      return waiting === undefined ? before : free
    }
    const { changes, additions } = driftOf(before.definition, definition)
    const about = { origin: origin.origin, scope: before.scope, tool: before.name }
    if (changes.length === 0 || origin.drift === 'log') {
      warn('the definition of a tool has changed', { ...about, changes, additions })
      return pinOf(origin, before.name, definition)
    }
    if (before.waiting?.hash === hash) return before
    warn('a tool is quarantined: its definition has changed', { ...about, changes })
    return { ...before, waiting: { definition, hash, changes, since: now() } }
  }

  async #store(pins: readonly Pin[]): Promise<void> {
    if (pins.length === 0) return
    const writes: TableWrite[] = []
    const slices = new Slices()
    for (const pin of pins) {
      writes.push(write(pin, this.#options.now()))
      await slices.next()
    }
    await this.#options.log.append({ writes })
    for (const pin of pins) this.#pins.set(keyOf(pin.scope, pin.name), pin)
  }
}

const keyOf = (scope: string, name: string): string => `${scope}\n${name}`

const isOf = (pin: Pin, scope: string, origin: string): boolean => pin.scope === scope && pin.origin === origin

const pinOf = ({ scope, origin }: PinOrigin, name: string, definition: PinnedDefinition): Pin => ({
  scope,
  name,
  origin,
  definition,
  hash: hashOf(name, definition)
})

function hashOf(name: string, { description, parameters, output }: PinnedDefinition): string {
  const text = canonicalJson({ name, description, parameters, ...(output === undefined ? {} : { output }) })
  return createHash('sha256').update(text).digest('hex')
}

function write({ scope, name, ...data }: Pin, at: number): TableWrite {
  const text = stringifyJson(data as unknown as JsonValue)
  return { table: 'registrations', op: 'put', row: { kind, scope, name, data: text, created_at: at } }
}

function read(row: Row): Pin {
  const data = parseJson(String(row['data'])) as unknown as Omit<Pin, 'scope' | 'name'>
  if (typeof data.hash !== 'string' || typeof data.definition?.description !== 'string') {
    throw new TypeError('not the row of a pin')
  }
  return { ...data, scope: String(row['scope']), name: String(row['name']) }
}
