import type { NewEvent, Row } from '../event-log/event-log.ts'
import type { DurableEvents } from '../events/vocabulary.ts'

/** The events that say what holds from then on: the member that says it, and the column of the session's row that keeps it. */
const kept = {
  'sandbox/mode': { member: 'mode', column: 'sandbox_mode' },
  'approval/policy': { member: 'policy', column: 'approval_policy' },
  'permission/preset': { member: 'preset', column: 'preset' }
} as const

type Kept = typeof kept
export type FactType = keyof Kept
type FactOf<Type extends FactType> = DurableEvents[Type][Kept[Type]['member'] & keyof DurableEvents[Type]]

const types = Object.keys(kept) as FactType[]

/**
 * What a session's last `sandbox/mode`, `approval/policy` and `permission/preset` events say (backends.md §11.1, §12; core.md §25.5).
 * It is stored in the session's row in the append of the event: retention deletes events, and a default that is wider must not take
 * their place.
 */
export class Facts {
  readonly #said = new Map<FactType, string>()
  #version = 0

  /** `row`: that of a stored session. */
  constructor(row: Row = {}) {
    for (const type of types) {
      const cell = row[kept[type].column]
      if (typeof cell === 'string') this.#said.set(type, cell)
    }
  }

  /** Another number whenever a column is another one. */
  get version(): number {
    return this.#version
  }

  /** What the last event of this type says, undefined when there never was one. */
  last<Type extends FactType>(type: Type): FactOf<Type> | undefined {
    return this.#said.get(type) as FactOf<Type> | undefined
  }

  /** Takes up what these events say; to be stored with them. */
  take(events: readonly NewEvent[]): void {
    for (const { type, data } of events) {
      if (!isFact(type)) continue
      this.#said.set(type, (data as Record<string, string>)[kept[type].member]!)
      this.#version += 1
    }
  }

  columns(): Row {
    return Object.fromEntries(types.map((type) => [kept[type].column, this.#said.get(type) ?? null]))
  }
}

const isFact = (type: string): type is FactType => Object.hasOwn(kept, type)
