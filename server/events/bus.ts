import type { Concerns, LiveEventType, LiveEvents } from './vocabulary.ts'

/** A live event as its subscribers get it. */
export interface LiveEvent<K extends LiveEventType = LiveEventType> {
  readonly type: K
  /** Epoch milliseconds. */
  readonly time: number
  readonly data: LiveEvents[K]
}

type Listener = (event: LiveEvent) => void

/** Live events, in process: whoever subscribed when one is published hears it, in order, before `publish` returns. */
export class EventBus {
  readonly #listeners = new Set<Listener>()
  readonly #onThrow: (error: unknown, type: string) => void

  /** `onThrow` hears what a listener threw; the publisher and the other listeners do not. */
  constructor(onThrow: (error: unknown, type: string) => void = () => {}) {
    this.#onThrow = onThrow
  }

  publish<K extends LiveEventType>(type: K, data: LiveEvents[K]): void {
    const event: LiveEvent<K> = { type, time: Date.now(), data }
    for (const listener of this.#listeners) {
      try {
        listener(event)
      } catch (error) {
        this.#onThrow(error, type)
      }
    }
  }

  /** Returns the undo. */
  subscribe(listener: Listener): () => void {
    const own: Listener = (event) => listener(event)
    this.#listeners.add(own)
    return () => void this.#listeners.delete(own)
  }
}

/** Whom the event concerns, as far as it says. */
export function concernsOf(event: LiveEvent): Concerns {
  return event.data
}
