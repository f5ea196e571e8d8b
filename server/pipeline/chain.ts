export type Awaitable<T> = T | Promise<T>

/** The listeners of a stage around its default. */
export interface Chain<L, T> {
  listeners: readonly L[]
  invoke: (listener: L, next: () => Promise<T>) => Awaitable<T>
  /** The stage's built-in default, innermost. */
  last: () => Awaitable<T>
  /** The around stage: `next()` may be called again, and a run that a listener leaves behind is awaited (core.md §12.7). */
  around?: boolean
}

/**
 * Runs a chain, first listener outermost; rejects with what escapes it. Each `next()` enters the whole inner chain. Calling it a
 * second time (in the around stage: before the first run has settled), or after the listener itself has settled, fails the
 * stage, whatever the listeners make of the error (core.md §9.4).
 */
export async function runChain<L, T>(chain: Chain<L, T>): Promise<T> {
  const run: ChainRun<L, T> = { ...chain, misuse: undefined, isOver: false, owned: undefined }
  try {
    const outcome = await enter(run, 0)
    if (run.misuse !== undefined) throw run.misuse
    return outcome
  } finally {
    run.isOver = true
  }
}

interface ChainRun<L, T> extends Chain<L, T> {
  misuse: TypeError | undefined
  isOver: boolean
  /** What `next()` gave last: listeners that hand it on give the same one. */
  owned: Promise<T> | undefined
}

/**
 * Runs the chain from one listener on. What is known at once is returned as it is, and a listener that hands on what `next()` gave it
 * costs no promise of its own: with some ten hooks on each call that is a third of the promises of a call.
 */
function enter<L, T>(chain: ChainRun<L, T>, index: number): Awaitable<T> {
  const listener = chain.listeners[index]
  if (listener === undefined) return chain.last()
  const link = new Link(chain, index)
  let outcome: Awaitable<T>
  try {
    outcome = chain.invoke(listener, link.next)
  } catch (error) {
    outcome = Promise.reject<T>(error)
  }
  if (link.run !== undefined && outcome === link.run) return link.handedOn(link.run)
  return isThenable(outcome) || link.mustBeAwaited ? link.settled(outcome) : link.settledWith(outcome)
}

/** One listener of a running chain, and what it did with its `next()`. */
class Link<L, T> {
  readonly #chain: ChainRun<L, T>
  readonly #index: number
  #isRunning = false
  #isSettled = false
  #isHandedOn = false
  run: Promise<T> | undefined

  constructor(chain: ChainRun<L, T>, index: number) {
    this.#chain = chain
    this.#index = index
  }

  readonly next = (): Promise<T> => {
    const { isOver, around } = this.#chain
    if (this.#isSettled || isOver) return this.#refuse('next() was called after its listener had settled')
    if (this.#isRunning) return this.#refuse('next() was called while an earlier next() was still running')
    if (this.run !== undefined && !around) return this.#refuse('next() was called twice')
    return (this.run = this.#enterRest())
  }

  /** There is no racing a body: whoever returns early still waits for what it started. */
  get mustBeAwaited(): boolean {
    return this.#chain.around === true && this.#isRunning
  }

  /** The listener settles when the rest of the chain does. */
  handedOn(run: Promise<T>): Promise<T> {
    this.#isHandedOn = true
    return run
  }

  settledWith(outcome: T): T {
    this.#isSettled = true
    return outcome
  }

  async settled(outcome: Awaitable<T>): Promise<T> {
    try {
      return await outcome
    } finally {
      this.#isSettled = true
      if (this.mustBeAwaited) await this.run?.catch(ignore)
    }
  }

  #enterRest(): Promise<T> {
    const rest = enter(this.#chain, this.#index + 1)
    const run = Promise.resolve(rest)
    // Nobody need await it: its rejection is not an unhandled one.
    if (this.#chain.around) {
      this.#isRunning = true
      const settle = (): void => {
        this.#isRunning = false
        this.#isSettled ||= this.#isHandedOn
      }
      run.then(settle, settle)
    } else if (isThenable(rest) && run !== this.#chain.owned) run.then(undefined, ignore)
    this.#chain.owned = run
    return run
  }

  #refuse(message: string): Promise<T> {
    const error = new TypeError(message)
    this.#chain.misuse ??= error
    const refused = Promise.reject<T>(error)
    refused.catch(ignore)
    return refused
  }
}

const ignore = (): void => {}

/** What a hook gives may be a promise of any make. */
const isThenable = <T>(value: Awaitable<T>): value is Promise<T> =>
  typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'
