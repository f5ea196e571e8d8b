import { RequestError } from '../errors.ts'
import type { Scope } from '../scopes/scope.ts'
import { Provider, type ProviderLimits, type ProviderLink } from './provider.ts'

export interface ProvidersOptions {
  limits: ProviderLimits & {
    /** Providers that one token may have. */
    readonly maxPerToken: number
  }
  /** Whether the token of this id is still good, whatever its secret is by now. */
  isOwnerLive: (tokenId: string) => boolean
  /** Whether tools of this provider are registered. */
  hasTools: (scope: Scope, providerId: string) => boolean
  /** Runs once for each scope with a provider; `forget` is to be called when the scope is disposed. Throws for one that is. */
  onScope: (scope: Scope, forget: () => void) => void
}

/**
 * The providers by scope and id (api.md §5). An id belongs to the token that provided under it first, as long as that token is good and
 * some tool or socket of it is left; nobody else's socket gets its calls.
 */
export class Providers {
  readonly #options: ProvidersOptions
  readonly #byScope = new Map<Scope, Map<string, Provider>>()

  constructor(options: ProvidersOptions) {
    this.#options = options
  }

  /**
   * The provider of this id, made when there is none, or when nothing is left of it. Throws `PROVIDER_TAKEN` when it is another token's,
   * `RATE_LIMITED` when the token has too many.
   */
  claim(scope: Scope, id: string, tokenId: string): Provider {
    const known = this.#byScope.get(scope)?.get(id)
    if (known !== undefined && known.owner !== tokenId && this.#isHeld(scope, known)) {
      throw new RequestError('PROVIDER_TAKEN', `The provider "${id}" of scope "${scope.id}" is another token's.`)
    }
    if (known?.owner === tokenId) return known
    const { maxPerToken } = this.#options.limits
    if (this.#countOf(tokenId) >= maxPerToken) {
      throw new RequestError('RATE_LIMITED', 'This token has too many providers.', {
        details: { limit: 'providers.maxPerToken', value: maxPerToken }
      })
    }
    if (known === undefined) return this.restore(scope, id, tokenId)
    // Its tools go with the id; what was under way for the former owner does not.
    known.fail()
    known.owner = tokenId
    return known
  }

  /** The provider of a tool that is registered already, made when there is none. */
  restore(scope: Scope, id: string, owner: string): Provider {
    let inScope = this.#byScope.get(scope)
    if (inScope === undefined) {
      this.#options.onScope(scope, () => this.#forget(scope))
      inScope = new Map()
      this.#byScope.set(scope, inScope)
    }
    let provider = inScope.get(id)
    if (provider === undefined) {
      provider = new Provider({ id, scope: scope.id, owner }, this.#options.limits)
      inScope.set(id, provider)
    }
    return provider
  }

  /**
   * The socket of a provider is gone. Calls under way wait out the grace, unless nobody can come back for them: the token is no more.
   */
  detach(provider: Provider, link: ProviderLink): void {
    provider.detach(link, { mayReturn: this.#options.isOwnerLive(provider.owner) })
  }

  /** Ends every provider and its calls; the server closes. */
  close(): void {
    for (const scope of [...this.#byScope.keys()]) this.#forget(scope)
  }

  #forget(scope: Scope): void {
    const inScope = this.#byScope.get(scope)
    this.#byScope.delete(scope)
    for (const provider of inScope?.values() ?? []) provider.end()
  }

  #isHeld(scope: Scope, provider: Provider): boolean {
    return this.#options.isOwnerLive(provider.owner) && this.#isLeft(scope, provider)
  }

  #isLeft(scope: Scope, provider: Provider): boolean {
    return provider.isAvailable || provider.pending.length > 0 || this.#options.hasTools(scope, provider.id)
  }

  /** Counts the token's providers, and drops those of which nothing is left. */
  #countOf(tokenId: string): number {
    let count = 0
    for (const [scope, inScope] of this.#byScope) {
      for (const [id, provider] of inScope) {
        if (provider.owner !== tokenId) continue
        if (this.#isLeft(scope, provider)) count += 1
        else inScope.delete(id)
      }
    }
    return count
  }
}
