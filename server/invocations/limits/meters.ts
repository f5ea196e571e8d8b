import type { Scope } from '../../scopes/scope.ts'
import type { AdmissionLimits, LimitSet, LimitSettings, ScopeLimits } from './limit-set.ts'
import { Meter } from './meter.ts'

/** Whose request it is. */
export interface Asker {
  readonly scope: Scope
  /** The id of the token it came with; absent for one from inside the process. */
  readonly token?: string
  /** The id of the scope that the token reaches: what is above does not exist for it. */
  readonly reach?: string
  /** The tools that it names. */
  readonly tools?: readonly string[]
}

/** The meters of one scope. */
interface ScopeMeters {
  readonly own: Meter
  /** Counts those below as well. */
  readonly tree: Meter
  readonly tools: Map<string, Meter>
}

/**
 * Which meters a request has to pass. They are found by the scope itself, not by its id: with a scope that is disposed its meters and the
 * limits that were set for it are gone, and another one of its id begins anew.
 */
export class Meters {
  readonly #defaults: LimitSet
  readonly #settings: LimitSettings
  readonly #now: () => number
  readonly #set = new WeakMap<Scope, ScopeLimits>()
  readonly #scopes = new WeakMap<Scope, ScopeMeters>()
  readonly #tokens = new Map<string, Meter>()

  constructor(
    { maxConcurrentPerScope }: Pick<AdmissionLimits, 'maxConcurrentPerScope'>,
    settings: LimitSettings,
    now: () => number
  ) {
    this.#defaults = { concurrency: maxConcurrentPerScope, ...settings.perScope }
    this.#settings = settings
    this.#now = now
  }

  /** The meters in the way of a request, the nearest first. */
  of({ scope, token, tools = [] }: Asker): Meter[] {
    const meters = [this.#of(scope).own]
    if (token !== undefined) meters.push(this.ofToken(token))
    for (const layer of scope.chain) {
      const { tree, tools: ofTools } = this.#of(layer)
      meters.push(tree)
      if (ofTools.size === 0) continue
      for (const name of tools) {
        const meter = ofTools.get(name)
        if (meter !== undefined) meters.push(meter)
      }
    }
    return meters
  }

  /** All meters that the scope itself has. */
  ofScope(scope: Scope): Meter[] {
    const { own, tree, tools } = this.#of(scope)
    return [own, tree, ...tools.values()]
  }

  ofToken(id: string): Meter {
    const { tokens, perToken } = this.#settings
    const known = this.#tokens.get(id)
    if (known !== undefined) return known
    const limits = Object.hasOwn(tokens, id) ? tokens[id] : perToken
    const meter = new Meter({ kind: 'token' }, limits ?? perToken, this.#now())
    this.#tokens.set(id, meter)
    return meter
  }

  tokens(): ReadonlyMap<string, Meter> {
    return this.#tokens
  }

  /** Forgets the meters of tokens with which nothing is going on. */
  forgetIdleTokens(): void {
    const now = this.#now()
    for (const [id, meter] of this.#tokens) if (!meter.isDirty && meter.isIdle(now)) this.#tokens.delete(id)
  }

  /** What was set for a scope at run time. */
  setFor(scope: Scope): ScopeLimits | undefined {
    return this.#set.get(scope)
  }

  /** Sets the limits of a scope at run time: each member takes the place of the configured one. */
  set(scope: Scope, limits: ScopeLimits): void {
    if (Object.keys(limits).length === 0) this.#set.delete(scope)
    else this.#set.set(scope, limits)
    const known = this.#scopes.get(scope)
    if (known === undefined) return
    const { own, tree, tools } = this.#limitsOf(scope)
    const now = this.#now()
    known.own.configure(own, now)
    known.tree.configure(tree, now)
    for (const [name, meter] of known.tools) {
      if (tools.has(name)) continue
      // Who waits for it goes on, and who runs still counts if it is limited again.
      meter.configure({}, now)
      if (meter.running === 0 && meter.waiting === 0) known.tools.delete(name)
    }
    for (const [name, each] of tools) {
      const meter = known.tools.get(name)
      if (meter === undefined) known.tools.set(name, toolMeter(scope, name, each, now))
      else meter.configure(each, now)
    }
  }

  #of(scope: Scope): ScopeMeters {
    const known = this.#scopes.get(scope)
    if (known !== undefined) return known
    const { own, tree, tools } = this.#limitsOf(scope)
    const now = this.#now()
    const made: ScopeMeters = {
      own: new Meter({ kind: 'own', scope: scope.id }, own, now),
      tree: new Meter({ kind: 'scope', scope: scope.id }, tree, now),
      tools: new Map([...tools].map(([name, each]) => [name, toolMeter(scope, name, each, now)]))
    }
    this.#scopes.set(scope, made)
    return made
  }

  #limitsOf(scope: Scope): { own: LimitSet; tree: LimitSet; tools: Map<string, LimitSet> } {
    const { scopes, tools } = this.#settings
    const configured = Object.hasOwn(scopes, scope.id) ? scopes[scope.id] : undefined
    const { tools: ofScope, ...tree } = { ...configured, ...this.#set.get(scope) }
    const own = Object.fromEntries(Object.entries(this.#defaults).filter(([member]) => !Object.hasOwn(tree, member)))
    return {
      own,
      tree,
      tools: new Map([
        ...Object.entries(scope.parent === undefined ? tools : {}),
        ...Object.entries(configured?.tools ?? {}),
        ...Object.entries(ofScope ?? {})
      ])
    }
  }
}

const toolMeter = ({ id }: Scope, tool: string, limits: LimitSet, now: number): Meter =>
  new Meter({ kind: 'tool', scope: id, tool }, limits, now)
