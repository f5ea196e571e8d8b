import type { Append, EventLog, LogState, StoredEvent } from '../../server/event-log/event-log.ts'
import { StoreUnavailableError } from '../../server/event-log/event-log.ts'
import { openMemoryLog } from '../../server/event-log/memory-log.ts'

/** A log in memory that refuses the appends that the test names, and says of itself what the test says. */
export class FlakyLog implements EventLog {
  readonly #log = openMemoryLog()
  readonly #listeners = new Set<(state: LogState) => void>()
  readonly appends: Append[] = []
  state: LogState = 'open'
  refuses: (append: Append) => boolean = () => false
  /** What a refused append rejects with. */
  error: () => Error = () => new StoreUnavailableError('the disk is full')

  get logId(): string {
    return this.#log.logId
  }

  get head(): number {
    return this.#log.head
  }

  async append(request: Append): Promise<readonly StoredEvent[]> {
    if (this.refuses(request)) {
      // As a real store does: it is known only later.
      await new Promise((resolve) => setImmediate(resolve))
      throw this.error()
    }
    this.appends.push(request)
    return this.#log.append(request)
  }

  onState(listener: (state: LogState) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  tell(state: LogState): void {
    this.state = state
    for (const listener of this.#listeners) listener(state)
  }

  read: EventLog['read'] = (query) => this.#log.read(query)
  rows: EventLog['rows'] = (table, where, limit) => this.#log.rows(table, where, limit)
  sessions: EventLog['sessions'] = (query) => this.#log.sessions(query)
  unfinishedSessions: EventLog['unfinishedSessions'] = (after, limit) => this.#log.unfinishedSessions(after, limit)
  lastSeq: EventLog['lastSeq'] = (session, type) => this.#log.lastSeq(session, type)
  onCommit: EventLog['onCommit'] = (listener) => this.#log.onCommit(listener)
  exportSession: EventLog['exportSession'] = (session) => this.#log.exportSession(session)
  prune: EventLog['prune'] = (session, beforeSeq) => this.#log.prune(session, beforeSeq)
  close: EventLog['close'] = () => this.#log.close()
}
