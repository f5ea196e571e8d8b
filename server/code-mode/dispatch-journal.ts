import type { JsonObject, JsonValue } from '../json/lossless.ts'
import type { DispatchLogEntry } from '../pipeline/hooks.ts'
import type { ToolResult } from '../pipeline/result.ts'
import type { ContentBlock } from '../tools/definition.ts'

/** An event of a program's call, as it goes into the session's log (code-mode.md §13.3). `time` is in epoch milliseconds. */
export interface DispatchEvent {
  readonly type: 'tool/code-dispatch-start' | 'tool/code-dispatch'
  readonly time: number
  readonly data: JsonObject
}

/** What both events of a call say of it. */
export interface DispatchedCall {
  readonly rootCallId: string
  readonly parentCallId: string
  readonly subCallId: string
  readonly name: string
  readonly arguments: JsonValue
}

export interface JournalOptions {
  /** Appends one event; its promise settles when the event is stored, or was refused. */
  append: (event: DispatchEvent) => Promise<unknown>
  /** What is logged as the content of a settled call; must not reject. */
  contentOf: (settled: Omit<DispatchLogEntry, 'agent'>) => Promise<readonly ContentBlock[]>
  /** Events that may be unwritten before `room` waits. */
  maxUnwritten: number
  /** Hears of the first event that could not be stored. */
  onFailure: (error: unknown) => void
}

/** Writes the events of one program's calls beside the calls: a value never waits for its event, only too many of them hold up the lane. */
export class DispatchJournal {
  readonly #options: JournalOptions
  readonly #unwritten = new Set<Promise<void>>()
  #lastSettled: Promise<void> = Promise.resolve()
  #failure: { error: unknown } | undefined

  constructor(options: JournalOptions) {
    this.#options = options
  }

  started(call: DispatchedCall): void {
    void this.#track(this.#options.append({ type: 'tool/code-dispatch-start', time: Date.now(), data: { ...call } }))
  }

  /** The time is that of the outcome, however long a hook takes over the content: durations come from the two times. */
  settled(call: DispatchedCall, { isError, content }: ToolResult): void {
    const time = Date.now()
    const shaped = this.#options.contentOf({ ...call, isError, content })
    const before = this.#lastSettled
    this.#lastSettled = this.#track(
      shaped.then(async (logged) => {
        await before
        const data = { ...call, isError, content: logged as readonly JsonValue[] as JsonValue[] }
        await this.#options.append({ type: 'tool/code-dispatch', time, data })
      })
    )
  }

  /** Resolves when few enough events are unwritten for another one. */
  async room(): Promise<void> {
    while (this.#unwritten.size > this.#options.maxUnwritten) await Promise.race(this.#unwritten)
  }

  /** Resolves when all is written; rejects with the first failure. */
  async whenWritten(): Promise<void> {
    await Promise.all(this.#unwritten)
    if (this.#failure !== undefined) throw this.#failure.error
  }

  /** The returned promise never rejects. */
  #track(writing: Promise<unknown>): Promise<void> {
    const done = writing.then(
      () => undefined,
      (error: unknown) => {
        if (this.#failure !== undefined) return
        this.#failure = { error }
        this.#options.onFailure(error)
      }
    )
    this.#unwritten.add(done)
    void done.then(() => this.#unwritten.delete(done))
    return done
  }
}
