import { RequestError } from '../../errors.ts'
import type { EventPage, EventQuery, Row, SessionPage, SessionQuery, TableName } from '../event-log.ts'
import { assertQuery, pageBytes } from '../query.ts'
import type { WirePage } from './protocol.ts'
import type { ReaderThread } from './reader.ts'
import { fromWire } from './wire.ts'

/** What the log reads. A page is put together of parts, each short, so that one long read does not keep others waiting. */
export class Reads {
  readonly #reader: ReaderThread

  constructor(reader: ReaderThread) {
    this.#reader = reader
  }

  async page(query: EventQuery): Promise<EventPage> {
    assertQuery(query)
    const page: EventPage = { events: [], head: -1 }
    let { after } = query
    const { maxBytes = pageBytes } = query
    for (let length = 0; ;) {
      const limit = query.limit - page.events.length
      const part = await this.#reader.ask<WirePage>({
        kind: 'page',
        query: { ...query, after, limit, maxBytes: maxBytes - length }
      })
      for (const event of part.events) {
        length += event.text.length
        page.events.push(fromWire(event))
      }
      page.head = part.head
      if (after === query.after && part.oldest !== undefined) page.oldest = part.oldest
      if (part.damaged.length > 0) page.damaged = [...new Set([...(page.damaged ?? []), ...part.damaged])]
      if (part.next === undefined) return page
      if (page.events.length === query.limit || length >= maxBytes) return { ...page, next: part.next }
      after = part.next
    }
  }

  rows(table: TableName, where: Row, limit: number): Promise<Row[]> {
    return this.#reader.ask<Row[]>({ kind: 'rows', table, where, limit })
  }

  async sessions(query: SessionQuery): Promise<SessionPage> {
    const rows: Row[] = []
    for (let { after } = query; ;) {
      const limit = query.limit - rows.length
      const part = await this.#reader.ask<SessionPage>({ kind: 'sessions', query: { ...query, after, limit } })
      rows.push(...part.rows)
      if (part.next === undefined) return { rows }
      if (rows.length === query.limit) return { rows, next: part.next }
      after = part.next
    }
  }

  unfinishedSessions(after: string, limit: number): Promise<string[]> {
    return this.#reader.ask<string[]>({ kind: 'unfinished', after, limit })
  }

  lastSeq(session: string, type: string): Promise<number> {
    return this.#reader.ask<number>({ kind: 'last-seq', session, type })
  }

  async *exportSession(session: string): AsyncGenerator<Uint8Array> {
    for (let after: number | undefined = -1; after !== undefined;) {
      const part: { frames?: Uint8Array; next?: number } = await this.#reader.ask({ kind: 'export', session, after })
      if (part.frames === undefined) throw new RequestError('UNKNOWN_SESSION')
      if (part.frames.length > 0) yield part.frames
      after = part.next
    }
  }
}
