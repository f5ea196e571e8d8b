import type { ApprovalPolicy, Policy } from '../approvals/policy.ts'
import { isWider, type SandboxMode } from '../backends/sandbox/sandbox.ts'
import { RequestError } from '../errors.ts'
import type { NewEvent } from '../event-log/event-log.ts'
import type { Scope } from '../scopes/scope.ts'
import type { FactType } from '../sessions/facts.ts'
import type { Session } from '../sessions/session.ts'
import type { SandboxModes } from './sandbox-modes.ts'

/** A name for a sandbox mode together with an approval policy (backends.md §12). */
export interface Preset {
  readonly preset: string
  readonly sandbox: SandboxMode
  readonly approval: Policy
  /** For people. */
  readonly name?: string
  readonly description?: string
}

/** What holds in a session. `preset` is `custom` where no preset says just that. */
export interface Permissions {
  readonly preset: string
  readonly sandbox: SandboxMode
  readonly approval: Policy
}

/** What to change: a preset, or parts by themselves. */
export interface PermissionsChange {
  readonly preset?: string
  readonly sandbox?: SandboxMode
  readonly approval?: Policy
}

export interface PresetsOptions {
  modes: SandboxModes
  policy: ApprovalPolicy
  /** In its own order. */
  table: Readonly<Record<string, Omit<Preset, 'preset'>>>
  /** False: nothing is confined, so there are no presets. */
  isConfining: boolean
  /** Something of the session runs on under its mode, so this does not change (backends.md §5.2). */
  isModeInUse?: (session: Session) => boolean
}

/** The permission presets (backends.md §12). Which one is in force is derived from what holds, never only from what was said last. */
export class Presets {
  readonly #options: PresetsOptions
  readonly #offered: readonly Preset[]
  readonly #completed = new WeakSet<Session>()

  constructor(options: PresetsOptions) {
    const { table, modes, isConfining } = options
    this.#options = options
    const all = Object.entries(table).map(([preset, entry]) => ({ preset, ...entry }))
    this.#offered = isConfining ? all.filter(({ sandbox }) => !isWider(sandbox, modes.widest)) : []
  }

  /** In the order of the table; empty where nothing is confined. */
  get offered(): readonly Preset[] {
    return this.#offered
  }

  /** What holds in a session. Throws `SANDBOX_MISSING` where nothing is confined. */
  current(session: Session): Permissions {
    this.#assertConfining()
    const { sandbox, approval } = this.#inForce(session)
    return { preset: this.#nameOf({ sandbox, approval }, recordedIn(session)), sandbox, approval }
  }

  /**
   * Changes what holds, in one append: the preset's name where it is another, then the mode and the policy where they are. What changes
   * nothing appends nothing. Throws `UNKNOWN_PRESET`, `SANDBOX_MISSING`, and `BAD_REQUEST` for a mode that is not allowed here.
   */
  async set(session: Session, change: PermissionsChange, source: string): Promise<Permissions> {
    this.#assertConfining()
    const events = this.#changes(session, change, source)
    if (events.length > 0) await session.append(events)
    return this.current(session)
  }

  /** What the log of a new session begins with: the facts that hold in it, so that they stay when the defaults are others. */
  openingEvents(scope: Scope): NewEvent[] {
    if (!this.#options.isConfining) return []
    const { modes, policy } = this.#options
    return this.#facts({ sandbox: modes.fallbackOf(scope), approval: policy.fallback })
  }

  /** Gives a session from before the facts that its log lacks; what holds in it stays. Once is enough. */
  async complete(session: Session): Promise<void> {
    if (!this.#options.isConfining || this.#completed.has(session)) return
    this.#completed.add(session)
    const missing = this.#facts(this.#inForce(session)).filter(({ type }) => session.facts.last(type) === undefined)
    if (missing.length > 0) await session.append(missing)
  }

  #inForce(session: Session): Pick<Permissions, 'sandbox' | 'approval'> {
    const { modes, policy } = this.#options
    return { sandbox: modes.of(session), approval: policy.of(session) }
  }

  #facts({ sandbox, approval }: Pick<Preset, 'sandbox' | 'approval'>): (NewEvent & { type: FactType })[] {
    const preset = this.#nameOf({ sandbox, approval }, undefined)
    return [
      ...(preset === custom ? [] : [{ type: 'permission/preset', data: { preset } } as const]),
      { type: 'sandbox/mode', data: { mode: sandbox, source: 'default' } },
      { type: 'approval/policy', data: { policy: approval, source: 'default' } }
    ]
  }

  /** Nothing is awaited between reading what holds and the append, so changes that come at once do not mix. */
  #changes(session: Session, change: PermissionsChange, source: string): NewEvent[] {
    const { modes, policy } = this.#options
    const named = change.preset === undefined ? undefined : this.#named(change.preset)
    const { sandbox = named?.sandbox, approval = named?.approval } = change
    if (sandbox !== undefined && isWider(sandbox, modes.widest)) {
      throw new RequestError('BAD_REQUEST', `the sandbox mode "${sandbox}" is not allowed on this server`)
    }
    const changesMode = sandbox !== undefined && sandbox !== modes.of(session)
    if (changesMode && this.#options.isModeInUse?.(session) === true) throw new RequestError('SANDBOX_IN_USE')
    const events: NewEvent[] = []
    if (named !== undefined && recordedIn(session) !== named.preset) {
      events.push({ type: 'permission/preset', data: { preset: named.preset } })
    }
    if (sandbox !== undefined) events.push(...modes.change(session, sandbox, source))
    if (approval !== undefined) events.push(...policy.change(session, approval, source))
    return events
  }

  #named(name: string): Preset {
    const preset = this.#offered.find((offered) => offered.preset === name)
    if (preset !== undefined) return preset
    const presets = this.#offered.map((offered) => offered.preset)
    throw new RequestError('UNKNOWN_PRESET', `There is no preset "${name}"; there are: ${presets.join(', ')}.`, {
      details: { presets }
    })
  }

  #nameOf({ sandbox, approval }: Pick<Preset, 'sandbox' | 'approval'>, recorded: string | undefined): string {
    const matching = this.#offered.filter((offered) => offered.sandbox === sandbox && offered.approval === approval)
    return (matching.find(({ preset }) => preset === recorded) ?? matching[0])?.preset ?? custom
  }

  #assertConfining(): void {
    if (!this.#options.isConfining) throw new RequestError('SANDBOX_MISSING')
  }
}

/** The name of what no preset says; reserved. */
const custom = 'custom'

/** The name in the last `permission/preset` event. */
const recordedIn = (session: Session): string | undefined => session.facts.last('permission/preset')
