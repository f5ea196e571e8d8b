import type { JsonObject, JsonValue } from '../json/lossless.ts'
import type { DispatchLogEntry } from '../pipeline/hooks.ts'
import type { ToolResult } from '../pipeline/result.ts'
import type { ContentBlock } from '../tools/definition.ts'
import { approximateBytes } from './argument-size.ts'

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

/** A call with the bytes of its arguments, about. */
export interface SizedCall {
  readonly call: DispatchedCall
  readonly bytes: number
}

export interface JournalOptions {
  /** Appends one event; its promise settles when the event is stored, or was refused. */
  append: (event: DispatchEvent) => Promise<unknown>
  /** What is logged as the content of a settled call; must not reject. */
  contentOf: (settled: Omit<DispatchLogEntry, 'agent'>) => Promise<readonly ContentBlock[]>
  /** Events that may be unwritten before `room` waits. */
  maxUnwritten: number
  /** Their bytes, about. */
  maxUnwrittenBytes: number
  /** Hears of the first event that could not be stored. */
  onFailure: (error: unknown) => void
}

/** Writes the events of one program's calls beside the calls: a value never waits for its event, only too many of them hold up the lane. */
export class DispatchJournal {
  readonly #options: JournalOptions
  readonly #unwritten = new Set<Promise<void>>()
  #unwrittenBytes = 0
  /** Settled calls are appended in order, and none waits until the one before is stored. */
  #lastAppended: Promise<unknown> = Promise.resolve()
  #failure: { error: unknown } | undefined

  constructor(options: JournalOptions) {
    this.#options = options
  }

  started({ call, bytes }: SizedCall): void {
    const event: DispatchEvent = { type: 'tool/code-dispatch-start', time: Date.now(), data: { ...call } }
    this.#track(this.#options.append(event), bytes)
  }

  /** The time is that of the outcome, however long a hook takes over the content: durations come from the two times. */
  settled({ call, bytes }: SizedCall, { isError, content }: ToolResult): void {
    const time = Date.now()
    const shaped = this.#options.contentOf({ ...call, isError, content })
    const before = this.#lastAppended
    const appended = Promise.all([shaped, before]).then(([logged]) => ({
      stored: this.#options.append({
        type: 'tool/code-dispatch',
        time,
        data: { ...call, isError, content: logged as unknown as JsonValue }
      })
    }))
    this.#lastAppended = appended
    const stored = appended.then((append) => append.stored)
    this.#track(stored, bytes + approximateBytes(content as unknown as JsonValue))
  }

  /** Resolves when little enough is unwritten for another event. */
  async room(): Promise<void> {
    const { maxUnwritten, maxUnwrittenBytes } = this.#options
    while (this.#unwritten.size > maxUnwritten || this.#unwrittenBytes > maxUnwrittenBytes) {
      await Promise.race(this.#unwritten)
    }
  }

  /** Resolves when all is written; rejects with the first failure. */
  async whenWritten(): Promise<void> {
    await Promise.all(this.#unwritten)
    if (this.#failure !== undefined) throw this.#failure.error
  }

  #track(writing: Promise<unknown>, bytes: number): void {
    const done = writing
      .catch((error: unknown) => {
        if (this.#failure !== undefined) return
        this.#failure = { error }
        this.#options.onFailure(error)
      })
      .then(() => {
        this.#unwritten.delete(done)
        this.#unwrittenBytes -= bytes
      })
    this.#unwritten.add(done)
    this.#unwrittenBytes += bytes
  }
}
