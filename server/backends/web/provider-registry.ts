import { WebError } from './web.ts'

/** The providers of one kind (backends.md §8.1). The order of registration never matters. */
export class ProviderRegistry<Provider extends { readonly id: string; isUsable(): boolean }> {
  readonly #providers = new Map<string, Provider>()
  readonly #kind: string
  readonly #configured: string | undefined

  /** `kind` is for messages; `configured` is the id that calls must use. */
  constructor(kind: string, configured: string | undefined) {
    this.#kind = kind
    this.#configured = configured
  }

  get ids(): string[] {
    return [...this.#providers.keys()]
  }

  register(provider: Provider): () => void {
    const { id } = provider
    if (this.#providers.has(id)) {
      throw new WebError('WEB_DUPLICATE_PROVIDER', `there is already a ${this.#kind} provider ${JSON.stringify(id)}`)
    }
    this.#providers.set(id, provider)
    return () => {
      if (this.#providers.get(id) === provider) this.#providers.delete(id)
    }
  }

  /** The provider for one call; throws WebError when it is not clear which, or there is none. */
  select(): Provider {
    const id = this.#configured
    if (id !== undefined) return this.#selectConfigured(id)
    const [only, ...others] = [...this.#providers.values()].filter((provider) => provider.isUsable())
    if (only === undefined) {
      throw new WebError('WEB_PROVIDER_UNAVAILABLE', `there is no usable ${this.#kind} provider on this server`)
    }
    if (others.length > 0) {
      const ids = [only, ...others].map((provider) => provider.id).sort()
      throw new WebError(
        'WEB_PROVIDER_AMBIGUOUS',
        `several ${this.#kind} providers are usable and none is configured: ${ids.join(', ')}`
      )
    }
    return only
  }

  #selectConfigured(id: string): Provider {
    const provider = this.#providers.get(id)
    const named = `the configured ${this.#kind} provider ${JSON.stringify(id)}`
    if (provider === undefined) throw new WebError('WEB_PROVIDER_CONFIGURED_MISSING', `${named} is not there`)
    if (!provider.isUsable()) throw new WebError('WEB_PROVIDER_CONFIGURED_UNAVAILABLE', `${named} is not usable`)
    return provider
  }
}
