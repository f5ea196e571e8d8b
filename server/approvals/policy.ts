import { randomUUID } from 'node:crypto'
import type { EventLog, NewEvent } from '../event-log/event-log.ts'
import type { Session } from '../sessions/session.ts'

export type Policy = 'ask' | 'never'

const pageSize = 500

/** Whether a session asks people at all (core.md §25.5): its last `approval/policy` event, else the deployment's default. */
export class ApprovalPolicy {
  readonly #log: EventLog
  readonly #fallback: Policy
  readonly #known = new WeakMap<Session, Policy>()

  constructor(log: EventLog, fallback: Policy) {
    this.#log = log
    this.#fallback = fallback
  }

  /** The deployment's default. */
  get fallback(): Policy {
    return this.#fallback
  }

  async of(session: Session): Promise<Policy> {
    const known = this.#known.get(session)
    if (known !== undefined) return known
    const stored = (await this.#stored(session)) ?? this.#fallback
    // A change that came while this was reading is newer.
    const current = this.#known.get(session) ?? stored
    this.#known.set(session, current)
    return current
  }

  /**
   * Throws `TypeError` for an unknown value, before anything is logged. The same value changes nothing; another one is told to the model
   * with the next step (core.md §25.5).
   */
  async set(session: Session, policy: Policy, source?: string): Promise<void> {
    const events = await this.change(session, policy, source)
    if (events.length > 0) await session.append(events)
  }

  /** As `set`, but it is the caller who appends what it returns. */
  async change(session: Session, policy: Policy, source?: string): Promise<NewEvent[]> {
    if (policy !== 'ask' && policy !== 'never') throw new TypeError(`there is no approval policy "${String(policy)}"`)
    await this.of(session)
    if (this.#known.get(session) === policy) return []
    this.#known.set(session, policy)
    const text =
      policy === 'never'
        ? 'Approvals are off from now on: calls that would need one are refused.'
        : 'Approvals are on from now on: calls that need one wait for a person.'
    session.queueContext({
      id: randomUUID(),
      role: 'user',
      content: [{ type: 'text', text }],
      source: { kind: 'plugin', plugin: 'approvals', form: 'notice', summary: `approval policy: ${policy}` }
    })
    return [{ type: 'approval/policy', data: { policy, ...(source === undefined ? {} : { source }) } }]
  }

  async #stored(session: Session): Promise<Policy | undefined> {
    let last: Policy | undefined
    for (let after: number | undefined = -1; after !== undefined;) {
      const page: Awaited<ReturnType<EventLog['read']>> = await this.#log.read({
        session: session.id,
        after,
        limit: pageSize,
        types: ['approval/policy']
      })
      last = (page.events.at(-1)?.data as { policy: Policy } | undefined)?.policy ?? last
      after = page.next
    }
    return last
  }
}
