import type { EventLog, StoredEvent } from '../event-log/event-log.ts'
import { eventText } from './stored-event.ts'
import { stringifyJson } from '../json/serialize.ts'
import type { JsonValue } from '../json/lossless.ts'
import type { StrikeOut } from '../json/strike-out.ts'
import { concernsOf, type EventBus, type LiveEvent } from './bus.ts'
import type { FrameFormat } from './frames.ts'
import { type FrameSink, Subscription, type SubscriptionRequest } from './subscription.ts'

export interface FanOutOptions {
  log: EventLog
  bus: EventBus
  /** What the event shows beside its data, under `view` (api.md §4); called once per event however many hear of it. */
  viewOf?: (event: StoredEvent) => JsonValue | undefined
  /** Runs before events that were read from the log are shown, so that `viewOf` knows them. */
  prepareViews?: (events: readonly StoredEvent[]) => Promise<void>
  /** Applied to live events; stored ones come without secrets. */
  strikeOut?: StrikeOut | undefined
}

/** All subscriptions of the process: each event is serialised once for all of them (architecture.md §5). */
export class FanOut {
  readonly #log: EventLog
  readonly #viewOf: (event: StoredEvent) => JsonValue | undefined
  readonly #prepareViews: (events: readonly StoredEvent[]) => Promise<void>
  readonly #strikeOut: StrikeOut
  readonly #open = new Set<Subscription>()
  readonly #undos: readonly (() => void)[]
  #last: { event: StoredEvent; text: string } | undefined

  constructor({ log, bus, viewOf = () => undefined, prepareViews = async () => {}, strikeOut }: FanOutOptions) {
    this.#strikeOut = strikeOut ?? ((text) => text)
    this.#log = log
    this.#viewOf = viewOf
    this.#prepareViews = prepareViews
    this.#undos = [
      log.onCommit((events) => {
        for (const event of events) this.#each((subscription) => subscription.offer(event))
        this.#last = undefined
      }),
      bus.subscribe((event) => this.#offerLive(event))
    ]
  }

  /** Events that the subscription which is farthest behind has yet to be sent. */
  get lag(): number {
    let lag = 0
    for (const subscription of this.#open) lag = Math.max(lag, subscription.behind)
    return lag
  }

  /** How many subscriptions are open. */
  get size(): number {
    return this.#open.size
  }

  /**
   * Opens a subscription: its `subscribed` frame, then the stored events after its cursor, then those to come. Throws
   * `RequestError` `LOG_RESET` or `CURSOR_EXPIRED`, whose `details` belong in the error frame (api.md §5).
   */
  async subscribe(request: SubscriptionRequest, sink: FrameSink, frames: FrameFormat): Promise<Subscription> {
    const subscription: Subscription = new Subscription(this.#log, request, {
      sink,
      frames,
      textOf: (event) => this.#textOf(event),
      prepare: this.#prepareViews,
      onEnd: () => void this.#open.delete(subscription)
    })
    // Before the first read, or a commit between the two would be in neither.
    this.#open.add(subscription)
    try {
      await subscription.start()
    } catch (error) {
      subscription.close()
      throw error
    }
    return subscription
  }

  /** Ends every subscription and hears of nothing more. */
  close(): void {
    for (const undo of this.#undos) undo()
    for (const subscription of this.#open) subscription.close()
  }

  #textOf(event: StoredEvent): string {
    if (this.#last?.event === event) return this.#last.text
    const text = eventText(event, this.#viewText(event))
    this.#last = { event, text }
    return text
  }

  #offerLive(event: LiveEvent): void {
    let text: string | undefined
    const textOnce = () => (text ??= this.#strikeOut(liveText(event)))
    this.#each((subscription) => subscription.offerLive(event, textOnce))
  }

  /** A subscription whose sink throws is ended, lest it miss an event unseen; the others go on. */
  #each(offer: (subscription: Subscription) => void): void {
    for (const subscription of this.#open) {
      try {
        offer(subscription)
      } catch {
        subscription.close()
      }
    }
  }

  #viewText(event: StoredEvent): { view?: string } {
    try {
      const view = this.#viewOf(event)
      return view === undefined ? {} : { view: stringifyJson(view) }
    } catch {
      // A card is an extra: a presenter's fault does not withhold the event.
      return {}
    }
  }
}

function liveText(event: LiveEvent): string {
  const { session, scope } = concernsOf(event)
  const head = JSON.stringify({ type: event.type, session, scope, time: event.time })
  return `${head.slice(0, -1)},"data":${stringifyJson(event.data as unknown as JsonValue)}}`
}
