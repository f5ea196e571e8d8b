import type { JsonObject } from '../json/lossless.ts'
import type { Executor, WireAnswer, WireCall } from './executor.ts'
import type { Provider } from './provider.ts'

/** Runs a tool on the socket of the provider that registered it (api.md §3, `client`). */
export class ClientExecutor implements Executor {
  readonly kind = 'client'
  readonly #provider: Provider

  constructor(provider: Provider) {
    this.#provider = provider
  }

  /** `available`: whether the provider is connected now. */
  describe(): JsonObject {
    const { id, isAvailable } = this.#provider
    return { providerId: id, available: isAvailable }
  }

  run(call: WireCall): Promise<WireAnswer> {
    return this.#provider.run(call)
  }
}
