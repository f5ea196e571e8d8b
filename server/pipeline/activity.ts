import type { Scope } from '../scopes/scope.ts'

/** Which scopes have a stage of some call running: what a disposal waits for. */
export class Activity {
  readonly #running = new Map<Scope, number>()
  readonly #waiting = new Set<{ readonly scope: Scope; readonly resolve: () => void }>()

  enter(scope: Scope): void {
    this.#running.set(scope, (this.#running.get(scope) ?? 0) + 1)
  }

  leave(scope: Scope): void {
    const count = this.#running.get(scope)
    if (count !== undefined && count > 1) {
      this.#running.set(scope, count - 1)
      return
    }
    this.#running.delete(scope)
    for (const waiter of this.#waiting) {
      if (this.#isBusy(waiter.scope)) continue
      this.#waiting.delete(waiter)
      waiter.resolve()
    }
  }

  /** Resolves once nothing runs in the scope or below it. */
  quiet(scope: Scope): Promise<void> {
    if (!this.#isBusy(scope)) return Promise.resolve()
    return new Promise((resolve) => this.#waiting.add({ scope, resolve }))
  }

  #isBusy(scope: Scope): boolean {
    for (const running of this.#running.keys()) if (running.isWithin(scope)) return true
    return false
  }
}
