import { RequestError } from '../errors.ts'
import type { EventLog, EventPage, StoredEvent } from '../event-log/event-log.ts'
import { matchesType } from './stored-event.ts'
import { concernsOf, type LiveEvent } from './bus.ts'
import type { FrameFormat } from './frames.ts'

/** Where frames go. It buffers what it is given; a subscription gives it no more while it is backed up. */
export interface FrameSink {
  sendText(text: string): void
  /** Whether more waits to be sent than the high water (1 MiB) allows. */
  readonly isBackedUp: boolean
  /** Resolves when it takes more, or is closed. */
  whenWritable(): Promise<void>
}

/** The scopes that a subscriber may see and asked for, looked at anew each time: scopes come and go. */
export interface SeenScopes {
  has(id: string): boolean
  ids(): readonly string[]
}

/** What a client subscribes to (api.md §5). */
export interface SubscriptionRequest {
  session?: string
  /** All when absent. */
  scopes?: SeenScopes
  /** Exact types, or prefixes ending in `*`; all when absent. */
  events?: readonly string[]
  /** A seq with `session`, else a position; exclusive. -1 replays all that is kept, absent means live only. */
  after?: number
  /** The log that `after` belongs to. */
  logId?: string
}

// What is read ahead of a slow reader, and so what a subscription may hold beside its sink's buffer.
const pageBytes = 256 * 1024
const pageEvents = 500

/**
 * A cursor over the log, not a queue (reliability.md §3.2): while its sink takes frames it is handed each commit; once the sink is
 * backed up it drops out and re-reads from its cursor, so the server's memory does not grow and nothing is lost or doubled.
 */
export class Subscription {
  readonly #log: EventLog
  readonly #request: SubscriptionRequest
  readonly #sink: FrameSink
  readonly #frames: FrameFormat
  readonly #textOf: (event: StoredEvent) => string
  readonly #prepare: (events: readonly StoredEvent[]) => Promise<void>
  readonly #onEnd: () => void
  /** The last event sent, or passed over: nothing up to it is sent again. */
  #cursor = -1
  /** The newest event of a commit that was not handed on, because the subscription was still reading. */
  #missed = -1
  /** What retention had taken before the start is not this cursor's loss. */
  #prunedBefore = 0
  #isStarted = false
  #isLive = false
  #isReading = false
  #isClosed = false
  #dropped = 0
  #isTellingGap = false

  constructor(
    log: EventLog,
    request: SubscriptionRequest,
    out: {
      sink: FrameSink
      frames: FrameFormat
      textOf: (event: StoredEvent) => string
      /** Runs before the events of a page are asked for their text. */
      prepare?: (events: readonly StoredEvent[]) => Promise<void>
      onEnd: () => void
    }
  ) {
    this.#log = log
    this.#request = request
    this.#sink = out.sink
    this.#frames = out.frames
    this.#textOf = out.textOf
    this.#prepare = out.prepare ?? (async () => {})
    this.#onEnd = out.onEnd
  }

  /**
   * Checks the cursor and begins. Commits must be offered from before this call on. Throws `LOG_RESET` when the cursor is of
   * another log or beyond this one's end, `CURSOR_EXPIRED` when events after it were pruned.
   */
  async start(): Promise<void> {
    const { after, logId } = this.#request
    const probe = await this.#read(after ?? Number.MAX_SAFE_INTEGER, 1)
    const { head, oldest = 0 } = probe
    const isOther = logId !== undefined && logId !== this.#log.logId
    if (isOther || (after ?? -1) > head) {
      throw new RequestError('LOG_RESET', undefined, { details: { logId: this.#log.logId, head } })
    }
    if (after !== undefined && after >= 0 && after + 1 < oldest) {
      throw new RequestError('CURSOR_EXPIRED', undefined, { details: { oldest } })
    }
    if (this.#isClosed) return
    this.#isStarted = true
    this.#prunedBefore = oldest
    this.#cursor = after ?? head
    this.#sink.sendText(this.#frames.subscribed(head, this.#log.logId))
    void this.#readOn()
  }

  /** Events between its cursor and the newest it knows of; those it does not want count too. */
  get behind(): number {
    if (!this.#isStarted || this.#isLive) return 0
    const newest = this.#request.session === undefined ? this.#log.head : this.#missed
    return Math.max(0, newest - this.#cursor)
  }

  /** Hands on a committed event, unless the subscription is behind or does not want it. */
  offer(event: StoredEvent): void {
    if (this.#isClosed || !this.#isOfSession(event)) return
    const at = this.#at(event)
    if (at <= this.#cursor) return
    if (!this.#wants(event)) {
      // Passed over for good, or retention would take it for something that this subscriber has yet to read.
      if (this.#isLive) this.#cursor = at
      return
    }
    if (!this.#isLive || this.#sink.isBackedUp) {
      this.#missed = Math.max(this.#missed, at)
      if (this.#isLive) void this.#readOn()
      return
    }
    this.#send(event)
  }

  /** Hands on a live event, or counts it when the sink is backed up. `text` is its JSON. */
  offerLive(event: LiveEvent, text: () => string): void {
    if (!this.#isStarted || this.#isClosed || !this.#wantsLive(event)) return
    if (this.#sink.isBackedUp) {
      this.#dropped += 1
      void this.#tellGapInTime()
      return
    }
    this.#tellGap()
    this.#sink.sendText(this.#frames.event(text(), undefined))
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#onEnd()
  }

  /** Reads from the cursor at the sink's pace until nothing committed is left behind, and is live from then on. */
  async #readOn(): Promise<void> {
    if (this.#isReading) return
    this.#isReading = true
    this.#isLive = false
    try {
      for (let isBehind = true; isBehind;) {
        if (this.#sink.isBackedUp) await this.#sink.whenWritable()
        if (this.#isClosed) return
        const page = await this.#read(this.#cursor, pageEvents)
        await this.#prepare(page.events)
        if (this.#isClosed) return
        // Another subscription of the same sink was quicker. The page is read again rather than held: there may be many such.
        if (this.#sink.isBackedUp) continue
        this.#sendPage(page)
        // No await between this look and being live: a commit is either in a page or offered.
        isBehind = page.next !== undefined || this.#missed > this.#cursor
      }
      this.#isLive = true
    } catch (error) {
      this.#fail(error)
    } finally {
      this.#isReading = false
    }
  }

  #sendPage({ events, head, next, oldest = 0, damaged = [] }: EventPage): void {
    if (oldest > this.#prunedBefore && this.#cursor + 1 < oldest) {
      throw new RequestError('CURSOR_EXPIRED', undefined, { details: { oldest } })
    }
    this.#tellGap()
    for (const session of damaged) this.#sink.sendText(this.#frames.error('LOG_CORRUPT', { session }))
    for (const event of events) this.#send(event)
    this.#cursor = next ?? Math.max(this.#cursor, head)
  }

  #send(event: StoredEvent): void {
    this.#cursor = this.#at(event)
    this.#sink.sendText(this.#frames.event(this.#textOf(event), this.#cursor))
  }

  /** Also when no frame comes after those that were dropped. */
  async #tellGapInTime(): Promise<void> {
    if (this.#isTellingGap) return
    this.#isTellingGap = true
    // Others that waited may have filled the sink again.
    while (this.#sink.isBackedUp && !this.#isClosed) await this.#sink.whenWritable()
    this.#isTellingGap = false
    this.#tellGap()
  }

  #tellGap(): void {
    if (this.#dropped === 0 || this.#isClosed || this.#sink.isBackedUp) return
    this.#sink.sendText(this.#frames.gap(this.#dropped))
    this.#dropped = 0
  }

  #fail(error: unknown): void {
    const known =
      error instanceof RequestError ? error : new RequestError('STORE_UNAVAILABLE', undefined, { cause: error })
    this.#sink.sendText(this.#frames.error(known.code, (known.details ?? {}) as Record<string, string | number>))
    this.close()
  }

  #read(after: number, limit: number): Promise<EventPage> {
    const { session, scopes, events } = this.#request
    return this.#log.read({
      after,
      limit,
      maxBytes: pageBytes,
      ...(session === undefined ? {} : { session }),
      ...(scopes === undefined ? {} : { scopes: scopes.ids() }),
      ...(events === undefined ? {} : { types: events })
    })
  }

  #at({ seq, position }: StoredEvent): number {
    return this.#request.session === undefined ? position : seq
  }

  #isOfSession({ session }: StoredEvent): boolean {
    const { session: only } = this.#request
    return only === undefined || session === only
  }

  #wants({ type, scope }: StoredEvent): boolean {
    const { scopes, events } = this.#request
    return matchesType(type, events) && (scopes === undefined || scopes.has(scope))
  }

  #wantsLive(event: LiveEvent): boolean {
    const { session: only, scopes, events } = this.#request
    const { session, scope } = concernsOf(event)
    if (only !== undefined && session !== undefined && session !== only) return false
    if (scopes !== undefined && scope !== undefined && !scopes.has(scope)) return false
    return matchesType(event.type, events)
  }
}
