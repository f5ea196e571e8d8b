import type { AdmittedAppend } from './admission.ts'
import type { LogState, StoredEvent } from './event-log.ts'
import { type EventFields, storedEvent } from '../events/stored-event.ts'

type Listener = (events: readonly StoredEvent[]) => void

/** The events of one committed append, as handed out. `seq` and `position` are those of the first. */
export function committedEvents(
  append: AdmittedAppend,
  session: string,
  at: { scope: string; seq: number; position: number }
): readonly StoredEvent[] {
  return append.events.map(({ type, time, surfaceOp, sources, text, value }, index) => {
    const fields: EventFields = {
      type,
      session,
      scope: at.scope,
      seq: at.seq + index,
      position: at.position + index,
      time,
      ...(surfaceOp === null ? {} : { surfaceOp }),
      ...(sources === null ? {} : { sourceEventSeqs: Object.freeze(sources.map((source) => seqOf(source, at.seq))) })
    }
    return storedEvent(fields, text, value)
  })
}

function seqOf(source: number | { sameAppend: number }, firstSeq: number): number {
  return typeof source === 'object' ? firstSeq + source.sameAppend : source
}

/**
 * Who is told of commits. Throws are contained (core.md §23), and an append to the session being told of is refused: it would
 * put an event before listeners that are still hearing of the last one.
 */
export class CommitListeners {
  readonly #listeners = new Set<Listener>()
  #session: string | undefined

  add(listener: Listener): () => void {
    const own: Listener = (events) => listener(events)
    this.#listeners.add(own)
    return () => void this.#listeners.delete(own)
  }

  tell(events: readonly StoredEvent[]): void {
    this.#session = events[0]?.session
    for (const listener of this.#listeners) {
      try {
        listener(events)
      } catch {
        // A listener's fault is not the append's.
      }
    }
    this.#session = undefined
  }

  assertNotTelling(session: string | undefined): void {
    if (session === undefined || session !== this.#session) return
    throw new Error(`an observer of session ${session} may not append to it`)
  }
}

/** Who is told of the log's state. What one throws is for `onThrow`; the others hear of it all the same. */
export class StateListeners {
  readonly #listeners = new Set<(state: LogState) => void>()

  /** Returns the undo. */
  add(listener: (state: LogState) => void): () => void {
    const own = (state: LogState): void => listener(state)
    this.#listeners.add(own)
    return () => void this.#listeners.delete(own)
  }

  tell(state: LogState, onThrow: (error: unknown) => void): void {
    for (const listener of this.#listeners) {
      try {
        listener(state)
      } catch (error) {
        onThrow(error)
      }
    }
  }
}
