import { randomUUID } from 'node:crypto'
import { RequestError } from '../errors.ts'
import { type AdmittedAppend, admit } from './admission.ts'
import { CommitListeners, committedEvents, StateListeners } from './commits.ts'
import {
  type Append,
  type Cell,
  ConflictError,
  type EventLog,
  type EventPage,
  type EventQuery,
  type LogState,
  type Row,
  type SessionPage,
  type SessionQuery,
  type StoredEvent,
  StoreUnavailableError,
  type TableName
} from './event-log.ts'
import { eventLine, headerLine } from './export-lines.js'
import { assertQuery, pageBytes } from './query.ts'
import { SideRows } from './side-rows.ts'
import { eventDataText, matchesType } from '../events/stored-event.ts'
import type { StrikeOut } from '../json/strike-out.ts'
import { compress } from './zstd.js'

/** What a listing of sessions tells of each. */
const sessionColumns = ['id', 'scope', 'cwd', 'created_at', 'turn', 'turn_open'] as const

interface KeptSession {
  scope: string
  /** The seq of `events[0]`. */
  firstSeq: number
  events: StoredEvent[]
  /** The unique calls and results, as `type:callId`. */
  calls: Set<string>
}

/** A log that lives as long as its process: the contract of the durable one without the disk, for tests and measurements. */
export function openMemoryLog({ strikeOut }: { strikeOut?: StrikeOut } = {}): EventLog {
  return new MemoryLog(strikeOut)
}

class MemoryLog implements EventLog {
  readonly logId = randomUUID()
  readonly #strikeOut: StrikeOut | undefined
  readonly #side = new SideRows()
  readonly #sessions = new Map<string, KeptSession>()
  readonly #listeners = new CommitListeners()
  readonly #stateListeners = new StateListeners()
  #events: StoredEvent[] = []
  #head = -1
  #pruned = -1
  #state: LogState = 'open'
  /** Commits take their turn one after the other, as they do in the writer thread. */
  #last: Promise<unknown> = Promise.resolve()

  constructor(strikeOut?: StrikeOut) {
    this.#strikeOut = strikeOut
  }

  get state(): LogState {
    return this.#state
  }

  get head(): number {
    return this.#head
  }

  async append(request: Append): Promise<readonly StoredEvent[]> {
    this.#listeners.assertNotTelling(request.session)
    const append = admit(request, this.#strikeOut)
    if (this.#state !== 'open') throw new StoreUnavailableError('the event log is closed')
    const committed = this.#last.then(() => this.#commit(append))
    this.#last = committed.catch(() => {})
    return await committed
  }

  #commit(append: AdmittedAppend): readonly StoredEvent[] {
    const undos: (() => void)[] = []
    try {
      const events = this.#write(append, undos)
      if (events.length > 0) this.#listeners.tell(events)
      return events
    } catch (error) {
      for (const undo of undos.toReversed()) undo()
      throw error
    }
  }

  #write(append: AdmittedAppend, undos: (() => void)[]): readonly StoredEvent[] {
    const { session, scope, writes } = append
    const isSession = ({ table, op }: (typeof writes)[number]) => table === 'sessions' && op !== 'delete'
    for (const write of writes.filter(isSession)) undos.push(this.#side.apply(write, Number.NaN))
    const kept = session === undefined ? undefined : this.#keptSession(session, undos)
    const seq = kept === undefined ? 0 : kept.firstSeq + kept.events.length
    for (const write of writes.filter((write) => !isSession(write))) {
      undos.push(this.#side.apply(write, seq))
      if (write.table === 'sessions') this.#forget(write.row['id'])
    }
    if (session === undefined || kept === undefined) return []
    if (scope !== undefined && scope !== kept.scope) throw new RequestError('UNKNOWN_SESSION')
    const events = committedEvents(append, session, { scope: kept.scope, seq, position: this.#head + 1 })
    for (const [index, event] of events.entries()) {
      const sources = event.sourceEventSeqs ?? []
      if (sources.some((source) => source >= event.seq) || new Set(sources).size < sources.length) {
        throw new TypeError('a source must be an earlier event, and stands once')
      }
      const callId = append.events[index]?.callId
      if (callId != null) takeCall(kept.calls, `${event.type}:${callId}`, undos)
    }
    this.#head += events.length
    kept.events.push(...events)
    this.#events.push(...events)
    return events
  }

  #keptSession(session: string, undos: (() => void)[]): KeptSession {
    const row = this.#side.get('sessions', { id: session })
    if (row === undefined) throw new RequestError('UNKNOWN_SESSION')
    const known = this.#sessions.get(session)
    if (known !== undefined) return Object.assign(known, { scope: String(row['scope']) })
    const made: KeptSession = { scope: String(row['scope']), firstSeq: 0, events: [], calls: new Set() }
    this.#sessions.set(session, made)
    undos.push(() => void this.#sessions.delete(session))
    return made
  }

  #forget(session: unknown): void {
    if (typeof session !== 'string') return
    this.#sessions.delete(session)
    this.#events = this.#events.filter((event) => event.session !== session)
  }

  async read(query: EventQuery): Promise<EventPage> {
    assertQuery(query)
    const { session, after } = query
    const kept = session === undefined ? undefined : this.#sessions.get(session)
    const all = session === undefined ? this.#events : (kept?.events ?? [])
    const at = (event: StoredEvent) => (session === undefined ? event.position : event.seq)
    const first = session === undefined ? this.#pruned + 1 : (kept?.firstSeq ?? 0)
    const head = session === undefined ? this.#head : first + all.length - 1
    const page = pageOf(all, at, query)
    page.head = head
    if (page.next !== undefined && page.next >= head) delete page.next
    if (after + 1 < first) page.oldest = first
    return page
  }

  async rows(table: TableName, where: Row, limit = 1000): Promise<Row[]> {
    return this.#side.list(table, where, limit)
  }

  async sessions({ scopes, after, limit }: SessionQuery): Promise<SessionPage> {
    const wanted = scopes === undefined ? undefined : new Set(scopes)
    const all = this.#side.list('sessions', {}, Infinity).sort((a, b) => (idOf(a) < idOf(b) ? -1 : 1))
    const following = all.filter((row) => idOf(row) > after && (wanted?.has(String(row['scope'])) ?? true))
    const rows = following.slice(0, limit).map(listedColumns)
    const last = rows.at(-1)
    return { rows, ...(following.length > limit && last !== undefined ? { next: idOf(last) } : {}) }
  }

  async unfinishedSessions(after: string, limit: number): Promise<string[]> {
    const open = this.#side.list('sessions', { turn_open: 1 }, Infinity).map(idOf)
    const called = (['started', 'accepted'] as const).flatMap((state) =>
      this.#side.list('calls', { state }, Infinity).map((row) => String(row['session']))
    )
    const ids = [...new Set([...open, ...called])].filter((id) => id > after)
    return ids.sort((a, b) => (a < b ? -1 : 1)).slice(0, limit)
  }

  async lastSeq(session: string, type: string): Promise<number> {
    return this.#sessions.get(session)?.events.findLast((event) => event.type === type)?.seq ?? -1
  }

  async *exportSession(session: string): AsyncGenerator<Uint8Array> {
    const row = this.#side.get('sessions', { id: session })
    if (row === undefined) throw new RequestError('UNKNOWN_SESSION')
    const lines = (this.#sessions.get(session)?.events ?? []).map((event) =>
      eventLine({
        ...event,
        surfaceOp: event.surfaceOp ?? null,
        sources: event.sourceEventSeqs === undefined ? null : JSON.stringify(event.sourceEventSeqs),
        text: eventDataText(event)
      })
    )
    yield compress(Buffer.from(headerLine(row) + lines.join('')))
  }

  async prune(session: string, beforeSeq: number): Promise<void> {
    const kept = this.#sessions.get(session)
    if (kept === undefined) return
    const gone = kept.events.filter(({ seq }) => seq < beforeSeq)
    const last = gone.at(-1)
    if (last === undefined) return
    kept.events = kept.events.slice(gone.length)
    kept.firstSeq = last.seq + 1
    this.#events = this.#events.filter((event) => event.session !== session || event.seq >= beforeSeq)
    this.#pruned = Math.max(this.#pruned, last.position)
    this.#side.apply({ table: 'sessions', op: 'put', row: { id: session, first_seq: kept.firstSeq } }, 0)
    for (const { call_id, result_seq } of this.#side.list('calls', { session, state: 'done' }, Infinity)) {
      if (Number(result_seq) >= kept.firstSeq) continue
      this.#side.apply({ table: 'calls', op: 'delete', row: { session, call_id: call_id ?? null } }, 0)
    }
  }

  onCommit(listener: (events: readonly StoredEvent[]) => void): () => void {
    return this.#listeners.add(listener)
  }

  onState(listener: (state: LogState) => void): () => void {
    return this.#stateListeners.add(listener)
  }

  async close(): Promise<void> {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    await this.#last
    this.#stateListeners.tell('closed', () => undefined)
  }
}

const listedColumns = (row: Row): Row =>
  Object.fromEntries(sessionColumns.map((name): [string, Cell] => [name, row[name] ?? null]))

const idOf = (row: Row): string => String(row['id'])

/** The matching events after `query.after`; `next` says where a full page ends. */
function pageOf(all: readonly StoredEvent[], at: (event: StoredEvent) => number, query: EventQuery): EventPage {
  const { scopes, after, limit, types, maxBytes = pageBytes } = query
  const page: EventPage = { events: [], head: -1 }
  let length = 0
  for (let index = indexAfter(all, at, after); index < all.length; index += 1) {
    const event = all[index]
    if (event === undefined || !matchesType(event.type, types)) continue
    if (scopes !== undefined && !scopes.includes(event.scope)) continue
    page.events.push(event)
    length += eventDataText(event).length
    if (page.events.length === limit || length >= maxBytes) return { ...page, next: at(event) }
  }
  return page
}

/** Binary search: the events are in order of `at`. */
function indexAfter(all: readonly StoredEvent[], at: (event: StoredEvent) => number, after: number): number {
  let [low, high] = [0, all.length]
  while (low < high) {
    const middle = (low + high) >> 1
    const event = all[middle]
    if (event !== undefined && at(event) <= after) low = middle + 1
    else high = middle
  }
  return low
}

function takeCall(calls: Set<string>, call: string, undos: (() => void)[]): void {
  if (calls.has(call)) throw new ConflictError('events', `recorded already: ${call}`)
  calls.add(call)
  undos.push(() => void calls.delete(call))
}
