import { randomUUID } from 'node:crypto'
import { isWider, type SandboxMode, sandboxModes } from '../backends/sandbox/sandbox.ts'
import type { EventLog, NewEvent } from '../event-log/event-log.ts'
import type { Scope } from '../scopes/scope.ts'
import type { Session } from '../sessions/session.ts'
import { lastEvent } from './last-event.ts'

export interface SandboxModesOptions {
  log: EventLog
  /** The deployment's default, and those of single scopes, by id; the nearest counts. */
  fallback: SandboxMode
  scopes: Readonly<Record<string, SandboxMode>>
  /** No session is let further, whatever its log says: nothing runs unconfined where a sandbox is required. */
  widest: SandboxMode
}

/** How far each session's commands and file tools may go: its last `sandbox/mode` event, else the default (backends.md §11.1). */
export class SandboxModes {
  readonly #options: SandboxModesOptions
  readonly #known = new WeakMap<Session, SandboxMode>()

  constructor(options: SandboxModesOptions) {
    this.#options = options
  }

  get widest(): SandboxMode {
    return this.#options.widest
  }

  /** Where there is no session. */
  get fallback(): SandboxMode {
    return this.#capped(this.#options.fallback)
  }

  fallbackOf({ chain }: Scope): SandboxMode {
    const { scopes, fallback } = this.#options
    const nearest = chain.findLast(({ id }) => Object.hasOwn(scopes, id))
    return this.#capped(nearest === undefined ? fallback : scopes[nearest.id]!)
  }

  async of(session: Session): Promise<SandboxMode> {
    const known = this.#known.get(session)
    if (known !== undefined) return known
    const stored = await lastEvent(this.#options.log, session.id, 'sandbox/mode')
    // A change that came while this was reading is newer.
    const current = this.#known.get(session) ?? this.#capped(stored?.mode ?? this.fallbackOf(session.scope))
    this.#known.set(session, current)
    return current
  }

  /**
   * What changes the mode, to be appended by the caller; nothing when it is the same. Holds from now on and is told to the model with
   * the next step. Throws `TypeError` for a mode that there is not, or that is wider than may be.
   */
  async change(session: Session, mode: SandboxMode, source: string): Promise<NewEvent[]> {
    if (!sandboxModes.includes(mode)) throw new TypeError(`there is no sandbox mode "${mode as string}"`)
    if (isWider(mode, this.widest)) throw new TypeError(`the sandbox mode "${mode}" is not allowed on this server`)
    if ((await this.of(session)) === mode) return []
    this.#known.set(session, mode)
    session.queueContext({
      id: randomUUID(),
      role: 'user',
      content: [{ type: 'text', text: `The sandbox mode is ${mode} from now on.` }],
      source: { kind: 'plugin', plugin: 'sandbox', form: 'notice', summary: `sandbox mode: ${mode}` }
    })
    return [{ type: 'sandbox/mode', data: { mode, source } }]
  }

  /** What stands in the log may be of a time when more was allowed. */
  #capped(mode: SandboxMode): SandboxMode {
    return isWider(mode, this.widest) ? this.widest : mode
  }
}
