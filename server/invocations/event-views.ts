import type { EventLog, StoredEvent } from '../event-log/event-log.ts'
import type { ScopeTree } from '../scopes/scope-tree.ts'
import { cardOf, type RecordedCall } from '../tools/cards.ts'
import type { CallCard, ResultCard } from '../tools/definition.ts'
import type { Registry } from '../tools/registry.ts'

type Card = CallCard | ResultCard

/**
 * The cards of events, live and on replay, from the same stored data (core.md §28). A result's card needs its call's arguments: of
 * calls in flight they are remembered, of older ones read back from the log.
 */
export class EventViews {
  readonly #log: EventLog
  readonly #tree: ScopeTree
  readonly #registry: Registry
  readonly #inFlight = new Map<string, RecordedCall>()
  readonly #cards = new WeakMap<StoredEvent, { card: Card | undefined }>()

  constructor({ log, tree, registry }: { log: EventLog; tree: ScopeTree; registry: Registry }) {
    this.#log = log
    this.#tree = tree
    this.#registry = registry
  }

  /** Looks at events as they are committed, before anybody who was told later. Their cards are made once for all subscribers. */
  note(events: readonly StoredEvent[]): void {
    for (const event of events) {
      if (event.type !== 'tool/call' && event.type !== 'tool/result') continue
      this.#cards.set(event, { card: this.#card(event, (callId) => this.#inFlight.get(keyOf(event.session, callId))) })
      const { callId, name, arguments: raw } = callFields(event)
      const key = keyOf(event.session, callId)
      if (event.type === 'tool/call') this.#inFlight.set(key, { name, arguments: raw })
      else this.#inFlight.delete(key)
    }
  }

  /** Makes the cards of events that were read from the log: what `viewOf` answers for them from then on. */
  async prepare(events: readonly StoredEvent[]): Promise<void> {
    const calls = new Map<string, RecordedCall>()
    for (const event of events) {
      if (event.type !== 'tool/call' && event.type !== 'tool/result') continue
      const fields = callFields(event)
      const key = keyOf(event.session, fields.callId)
      if (event.type === 'tool/call') calls.set(key, fields)
      const call = calls.get(key) ?? (await this.#readCall(event))
      this.#cards.set(event, { card: this.#card(event, () => call) })
      if (event.type === 'tool/result') calls.delete(key)
    }
  }

  /** The card of an event that was noted or prepared, or undefined for the generic fallback. */
  viewOf(event: StoredEvent): Card | undefined {
    return this.#cards.get(event)?.card
  }

  #card(event: StoredEvent, callOf: (callId: string) => RecordedCall | undefined): Card | undefined {
    const scope = this.#tree.get(event.scope)
    return scope === undefined ? undefined : cardOf(event, (name) => this.#registry.lookup(name, scope), callOf)
  }

  async #readCall({ session, sourceEventSeqs }: StoredEvent): Promise<RecordedCall | undefined> {
    const seq = sourceEventSeqs?.[0]
    if (seq === undefined) return undefined
    const page = await this.#log.read({ session, after: seq - 1, limit: 1 })
    const call = page.events.find((event) => event.seq === seq && event.type === 'tool/call')
    return call === undefined ? undefined : callFields(call)
  }
}

const keyOf = (session: string, callId: string): string => `${session}\n${callId}`

function callFields({ type, data }: StoredEvent): RecordedCall & { callId: string } {
  if (type === 'tool/call') return data as unknown as RecordedCall & { callId: string }
  const { message } = data as { message: { source: { callId: string } } }
  return { callId: message.source.callId, name: '', arguments: '' }
}
