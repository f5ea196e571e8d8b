import { deepFreeze } from '../json/deep-freeze.ts'
import type { JsonValue } from '../json/lossless.ts'
import type { StoredEvent } from '../event-log/event-log.ts'

/** All of an event but its data. */
export type EventFields = Omit<StoredEvent, 'data'>

const dataText = Symbol('JSON text of data')

/**
 * An event as handed out, frozen. Its data is kept as JSON text and parsed when first looked at: a replay to a socket needs the
 * text alone. `value` is the parsed data where it is at hand already.
 */
export function storedEvent(fields: EventFields, text: string, value?: JsonValue): StoredEvent {
  let data = value
  const event = Object.defineProperty({ ...fields }, 'data', {
    enumerable: true,
    get: () => (data ??= deepFreeze(JSON.parse(text) as JsonValue))
  })
  Object.defineProperty(event, dataText, { value: text })
  return Object.freeze(event) as StoredEvent
}

/** The JSON text of the event's data. */
export function eventDataText(event: StoredEvent): string {
  return (event as StoredEvent & { readonly [dataText]: string })[dataText]
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
