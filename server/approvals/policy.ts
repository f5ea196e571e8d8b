import { randomUUID } from 'node:crypto'
import type { NewEvent } from '../event-log/event-log.ts'
import type { Session } from '../sessions/session.ts'

export type Policy = 'ask' | 'never'

/** Whether a session asks people at all (core.md §25.5): its last `approval/policy` event, else the deployment's default. */
export class ApprovalPolicy {
  readonly #fallback: Policy

  constructor(fallback: Policy) {
    this.#fallback = fallback
  }

  /** The deployment's default. */
  get fallback(): Policy {
    return this.#fallback
  }

  of(session: Session): Policy {
    return session.facts.last('approval/policy') ?? this.#fallback
  }

  /**
   * Throws `TypeError` for an unknown value, before anything is logged. The same value changes nothing; another one is told to the model
   * with the next step (core.md §25.5).
   */
  async set(session: Session, policy: Policy, source?: string): Promise<void> {
    const events = this.change(session, policy, source)
    if (events.length > 0) await session.append(events)
  }

  /** As `set`, but it is the caller who appends what it returns, at once. */
  change(session: Session, policy: Policy, source?: string): NewEvent[] {
    if (policy !== 'ask' && policy !== 'never') throw new TypeError(`there is no approval policy "${String(policy)}"`)
    if (this.of(session) === policy) return []
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
}
