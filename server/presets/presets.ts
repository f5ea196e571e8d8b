import type { ApprovalPolicy, Policy } from '../approvals/policy.ts'
import { isWider, type SandboxMode } from '../backends/sandbox/sandbox.ts'
import { RequestError } from '../errors.ts'
import type { EventLog, NewEvent } from '../event-log/event-log.ts'
import type { Scope } from '../scopes/scope.ts'
import type { Session } from '../sessions/session.ts'
import { lastEvent } from './last-event.ts'
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
  log: EventLog
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
  /** The name in the last `permission/preset` event; null when there is none. */
  readonly #recorded = new WeakMap<Session, string | null>()
  readonly #completed = new WeakSet<Session>()
  readonly #changing = new WeakMap<Session, Promise<unknown>>()

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
  async current(session: Session): Promise<Permissions> {
    this.#assertConfining()
    const { modes, policy } = this.#options
    const [sandbox, approval, recorded] = await Promise.all([
      modes.of(session),
      policy.of(session),
      this.#recordedOf(session)
    ])
    return { preset: this.#nameOf({ sandbox, approval }, recorded), sandbox, approval }
  }

  /**
   * Changes what holds, in one append: the preset's name where it is another, then the mode and the policy where they are. What changes
   * nothing appends nothing. Throws `UNKNOWN_PRESET`, `SANDBOX_MISSING`, and `BAD_REQUEST` for a mode that is not allowed here.
   */
  async set(session: Session, change: PermissionsChange, source: string): Promise<Permissions> {
    this.#assertConfining()
    await this.#inTurn(session, () => this.#set(session, change, source))
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
    await this.#inTurn(session, () => this.#complete(session))
  }

  /** Changes of one session are made one after the other. */
  async #inTurn(session: Session, change: () => Promise<void>): Promise<void> {
    const earlier = this.#changing.get(session) ?? Promise.resolve()
    const made = earlier.then(change)
    this.#changing.set(
      session,
      made.catch(() => undefined)
    )
    await made
  }

  async #complete(session: Session): Promise<void> {
    const { log, modes, policy } = this.#options
    const facts = this.#facts({ sandbox: await modes.of(session), approval: await policy.of(session) })
    const seqs = await Promise.all(facts.map(({ type }) => log.lastSeq(session.id, type)))
    const missing = facts.filter((_fact, at) => seqs[at] === -1)
    if (missing.length > 0) await session.append(missing)
    this.#recorded.delete(session)
  }

  #facts({ sandbox, approval }: Pick<Preset, 'sandbox' | 'approval'>): NewEvent[] {
    const preset = this.#nameOf({ sandbox, approval }, null)
    return [
      ...(preset === custom ? [] : [{ type: 'permission/preset', data: { preset } }]),
      { type: 'sandbox/mode', data: { mode: sandbox, source: 'default' } },
      { type: 'approval/policy', data: { policy: approval, source: 'default' } }
    ]
  }

  async #set(session: Session, change: PermissionsChange, source: string): Promise<void> {
    const { modes, policy } = this.#options
    const named = change.preset === undefined ? undefined : this.#named(change.preset)
    const { sandbox = named?.sandbox, approval = named?.approval } = change
    if (sandbox !== undefined && isWider(sandbox, modes.widest)) {
      throw new RequestError('BAD_REQUEST', `the sandbox mode "${sandbox}" is not allowed on this server`)
    }
    const changesMode = sandbox !== undefined && sandbox !== (await modes.of(session))
    if (changesMode && this.#options.isModeInUse?.(session) === true) throw new RequestError('SANDBOX_IN_USE')
    const events: NewEvent[] = []
    if (named !== undefined && (await this.#recordedOf(session)) !== named.preset) {
      this.#recorded.set(session, named.preset)
      events.push({ type: 'permission/preset', data: { preset: named.preset } })
    }
    if (sandbox !== undefined) events.push(...(await modes.change(session, sandbox, source)))
    if (approval !== undefined) events.push(...(await policy.change(session, approval, source)))
    if (events.length > 0) await session.append(events)
  }

  #named(name: string): Preset {
    const preset = this.#offered.find((offered) => offered.preset === name)
    if (preset !== undefined) return preset
    const presets = this.#offered.map((offered) => offered.preset)
    throw new RequestError('UNKNOWN_PRESET', `There is no preset "${name}"; there are: ${presets.join(', ')}.`, {
      details: { presets }
    })
  }

  #nameOf({ sandbox, approval }: Pick<Preset, 'sandbox' | 'approval'>, recorded: string | null): string {
    const matching = this.#offered.filter((offered) => offered.sandbox === sandbox && offered.approval === approval)
    return (matching.find(({ preset }) => preset === recorded) ?? matching[0])?.preset ?? custom
  }

  async #recordedOf(session: Session): Promise<string | null> {
    const known = this.#recorded.get(session)
    if (known !== undefined) return known
    const stored = await lastEvent(this.#options.log, session.id, 'permission/preset')
    const current = this.#recorded.get(session) ?? stored?.preset ?? null
    this.#recorded.set(session, current)
    return current
  }

  #assertConfining(): void {
    if (!this.#options.isConfining) throw new RequestError('SANDBOX_MISSING')
  }
}

/** The name of what no preset says; reserved. */
const custom = 'custom'
