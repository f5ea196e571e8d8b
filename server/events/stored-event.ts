import { deepFreeze } from '../json/deep-freeze.ts'
import type { JsonValue } from '../json/lossless.ts'
import type { StoredEvent } from '../event-log/event-log.ts'

/** All of an event but its data. */
export type EventFields = Omit<StoredEvent, 'data'>

// A text up to this length is parsed at once: an accessor of its own costs an event 8 µs, parsing and freezing it 2 µs.
const lazyLength = 8192

/** The text stays with the event in a private field: not seen by a comparison, a spread or `JSON.stringify`. */
class EventWithText {
  readonly #text: string

  constructor(fields: EventFields, text: string) {
    Object.assign(this, fields)
    this.#text = text
  }

  static textOf(event: object): string {
    if (!(#text in event)) throw new TypeError('not an event of a log')
    return event.#text
  }
}

/**
 * An event as handed out, frozen. Its data is kept as JSON text too, so that it is serialised once; `value` is the parsed data
 * where that is at hand. Long data that was read is parsed when first looked at: a replay to a socket needs the text alone.
 */
export function storedEvent(fields: EventFields, text: string, value?: JsonValue): StoredEvent {
  const event = new EventWithText(fields, text) as EventWithText & { data?: JsonValue }
  let data = value
  const parsed = () => (data ??= deepFreeze(JSON.parse(text) as JsonValue))
  if (value === undefined && text.length > lazyLength) {
    Object.defineProperty(event, 'data', { enumerable: true, get: parsed })
  } else {
    event.data = parsed()
  }
  return Object.freeze(event) as EventWithText & StoredEvent
}

/** The JSON text of the event's data. */
export function eventDataText(event: StoredEvent): string {
  return EventWithText.textOf(event)
}

/** The event as one JSON text; its data is not serialised again. `more` is added at the end (`view`, api.md §4). */
export function eventText(event: StoredEvent, more: { readonly view?: string } = {}): string {
  const { type, session, scope, seq, position, time, surfaceOp, sourceEventSeqs } = event
  const head = JSON.stringify({ type, session, scope, seq, position, time, surfaceOp, sourceEventSeqs })
  const view = more.view === undefined ? '' : `,"view":${more.view}`
  return `${head.slice(0, -1)},"data":${eventDataText(event)}${view}}`
}

/** Whether a type is one of the patterns: exact, or a prefix ending in `*`. No patterns: every type. */
export function matchesType(type: string, patterns: readonly string[] | undefined): boolean {
  if (patterns === undefined) return true
  return patterns.some((pattern) => (pattern.endsWith('*') ? type.startsWith(pattern.slice(0, -1)) : type === pattern))
}
