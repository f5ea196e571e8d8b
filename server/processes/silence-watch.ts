/** Looks until a process that said nothing counts as stuck. */
const LOOKS = 10

export interface SilenceWatchOptions {
  maxSilenceMs: number
  /** Makes a process that is well say something. */
  ask: () => void
  onSilence: (cause: Error) => void
}

/**
 * Notices that a process which has something to do says nothing: it was stopped, or it is stuck. Looks are counted, not time, for after a
 * sleep of the machine, or when this process was held up itself, the other one could not have answered.
 */
export class SilenceWatch {
  readonly #options: SilenceWatchOptions
  #looks = 0
  #timer: NodeJS.Timeout | undefined

  constructor(options: SilenceWatchOptions) {
    this.#options = options
  }

  start(): void {
    this.#timer ??= setInterval(() => this.#look(), this.#options.maxSilenceMs / LOOKS).unref()
  }

  heard(): void {
    this.#looks = 0
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#looks = 0
  }

  #look(): void {
    const { maxSilenceMs, ask, onSilence } = this.#options
    if (++this.#looks <= LOOKS) return ask()
    this.stop()
    onSilence(new Error(`it did not answer for ${maxSilenceMs / 1000} s`))
  }
}
