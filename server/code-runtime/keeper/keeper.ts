import type { Containment } from '../code-runtime.ts'
import { RuntimeUnavailableError } from '../runtime-errors.ts'
import { type Holder, type Heard, openHolder } from './holder.ts'
import type { KeeperOptions, RunOrder, SettledRun } from './messages.ts'

/** What one run hears of the keeper. */
export interface RunEvents {
  call(call: { id: number; global: string; name: string; argument: string }): void
  logs(texts: string[]): void
  settled(result: SettledRun): void
}

/** Holders that die at once are not started for ever. */
const maxRestarts = 5

/**
 * The main loop's end of whoever holds the worlds. Should that die, its runs fail, its processes end with their pipes, and another one
 * takes over.
 */
export class Keeper {
  readonly #options: KeeperOptions
  readonly #onStuck: (count: number) => void
  readonly #runs = new Map<number, RunEvents>()
  #lastRun = 0
  #holder: Holder
  #containment: Containment = { pidNamespace: false, ownUser: false, limits: false }
  #stuck = 0
  #spares = 0
  #restarts = 0
  #isDisposed = false
  /** Why there is no holder any more. */
  #lost: string | undefined
  #opened: { resolve(): void; reject(error: Error): void } | undefined
  #disposed: (() => void) | undefined

  private constructor(options: KeeperOptions, onStuck: (count: number) => void) {
    this.#options = options
    this.#onStuck = onStuck
    this.#holder = this.#open()
  }

  /** Resolves once worlds start. Rejects with `RuntimeUnavailableError` if they do not. `onStuck` hears of each change of `stuck`. */
  static async open(options: KeeperOptions, onStuck: (count: number) => void = () => {}): Promise<Keeper> {
    const keeper = new Keeper(options, onStuck)
    try {
      await new Promise<void>((resolve, reject) => (keeper.#opened = { resolve, reject }))
    } catch (error) {
      await keeper.dispose()
      throw error
    } finally {
      keeper.#opened = undefined
    }
    keeper.#holder.unref()
    return keeper
  }

  get containment(): Containment {
    return this.#containment
  }

  get stuck(): number {
    return this.#stuck
  }

  /** Worlds that are ready and have run nothing. */
  get spares(): number {
    return this.#spares
  }

  /** Starts a run. `abort` asks for its end; what the run comes to is told to `events` in any case. */
  start(order: Omit<RunOrder, 'run'>, events: RunEvents): KeptRun {
    this.#lastRun += 1
    const run = this.#lastRun
    this.#runs.set(run, events)
    this.#holder.ref()
    if (this.#lost !== undefined) queueMicrotask(() => this.#failAll(this.#lost!))
    else this.#holder.post({ type: 'run', run, ...order })
    return {
      room: () => this.#holder.room(),
      reply: (id, value) => this.#holder.post({ type: 'reply', run, id, value }),
      refuse: (id, message) => this.#holder.post({ type: 'refuse', run, id, message }),
      abort: (reason) => this.#holder.post({ type: 'abort', run, reason })
    }
  }

  /** Ends all runs as `abort`, then all worlds, within the grace. */
  async dispose(): Promise<void> {
    if (this.#isDisposed || this.#lost !== undefined) return
    this.#isDisposed = true
    const done = new Promise<void>((resolve) => (this.#disposed = resolve))
    this.#holder.ref()
    this.#holder.post({ type: 'dispose' })
    await done
    await this.#holder.end()
  }

  #open(): Holder {
    return openHolder(this.#options, {
      message: (message) => this.#receive(message),
      lost: (error) => this.#lose(error)
    })
  }

  #receive(message: Heard): void {
    switch (message.type) {
      case 'open':
        this.#containment = message.containment
        this.#restarts = 0
        return this.#opened?.resolve()
      case 'unavailable':
        return this.#opened?.reject(
          new RuntimeUnavailableError(`No world for programs can be started: ${message.message}`)
        )
      case 'call':
        return this.#runs.get(message.run)?.call(message)
      case 'logs':
        return this.#runs.get(message.run)?.logs(message.texts)
      case 'settled':
        return this.#settle(message.run, message.result)
      case 'stuck':
        this.#stuck = message.count
        return this.#onStuck(message.count)
      case 'spares':
        this.#spares = message.count
        return
      case 'disposed':
        return this.#disposed?.()
    }
  }

  #settle(run: number, result: SettledRun): void {
    const events = this.#runs.get(run)
    this.#runs.delete(run)
    if (this.#runs.size === 0) this.#holder.unref()
    events?.settled(result)
  }

  #lose({ message }: Error): void {
    this.#failAll(message)
    this.#stuck = 0
    this.#spares = 0
    this.#opened?.reject(new RuntimeUnavailableError(message))
    this.#disposed?.()
    this.#restarts += 1
    if (this.#isDisposed || this.#opened !== undefined || this.#restarts > maxRestarts) {
      this.#lost = message
      return
    }
    try {
      this.#holder = this.#open()
      if (this.#runs.size === 0) this.#holder.unref()
    } catch (error) {
      // Not even a process can be started.
      this.#lost = `${message}, and there is no other: ${String(error)}`
    }
  }

  #failAll(message: string): void {
    for (const run of [...this.#runs.keys()]) this.#settle(run, { logs: [], error: { kind: 'worker-exit', message } })
  }
}

/** A run in the keeper's hands. */
export interface KeptRun {
  /** Before a reply: resolves when there is room for it; undefined if there is. */
  room(): Promise<void> | undefined
  reply(id: number, value: string): void
  refuse(id: number, message: string): void
  abort(reason: string): void
}
