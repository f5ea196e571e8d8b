import { randomUUID } from 'node:crypto'
import { isWider, type SandboxMode, sandboxModes } from '../backends/sandbox/sandbox.ts'
import type { NewEvent } from '../event-log/event-log.ts'
import type { Scope } from '../scopes/scope.ts'
import type { Session } from '../sessions/session.ts'

export interface SandboxModesOptions {
  /** The deployment's default, and those of single scopes, by id; the nearest counts. */
  fallback: SandboxMode
  scopes: Readonly<Record<string, SandboxMode>>
  /** No session is let further, whatever its log says: nothing runs unconfined where a sandbox is required. */
  widest: SandboxMode
}

/** How far each session's commands and file tools may go: its last `sandbox/mode` event, else the default (backends.md §11.1). */
export class SandboxModes {
  readonly #options: SandboxModesOptions

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

  of(session: Session): SandboxMode {
    const said = session.facts.last('sandbox/mode')
    return said === undefined ? this.fallbackOf(session.scope) : this.#capped(said)
  }

  /**
   * What changes the mode, to be appended by the caller, at once; nothing when it is the same. The change is told to the model with the
   * next step. Throws `TypeError` for a mode that there is not, or that is wider than may be.
   */
  change(session: Session, mode: SandboxMode, source: string): NewEvent[] {
    if (!sandboxModes.includes(mode)) throw new TypeError(`there is no sandbox mode "${mode as string}"`)
    if (isWider(mode, this.widest)) throw new TypeError(`the sandbox mode "${mode}" is not allowed on this server`)
    if (this.of(session) === mode) return []
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
