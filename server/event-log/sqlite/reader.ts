import type { Worker } from 'node:worker_threads'
import type { FromReader, ReadRequest, WriterOptions } from './protocol.ts'
import { RequestError } from '../../errors.ts'
import { StoreUnavailableError } from '../event-log.ts'
import { startThread } from './threads.ts'

/** The reader thread, seen from the main one: requests are answered in order. */
export class ReaderThread {
  readonly #worker: Worker
  readonly #waiting = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>()
  #dead: string | undefined
  #lastId = 0
  #held: Promise<void> | undefined

  /** Told of a session that a read found broken. */
  onDamaged: (session: string) => void = () => {}
  /** Told when the thread ended by itself. */
  onDeath: (error: Error) => void = () => {}

  constructor(options: WriterOptions) {
    this.#worker = startThread(new URL('./reader-thread.js', import.meta.url), options)
    this.#worker.on('message', (answer: FromReader) => this.#settle(answer))
    this.#worker.on('error', (error: Error) => this.#fail(`the reader thread died: ${error.message}`))
    this.#worker.on('exit', () => this.#fail('the reader thread ended'))
  }

  async ask<T>(request: ReadRequest): Promise<T> {
    await this.#held
    return this.#post<T>(request)
  }

  /** Lets go of the database until `done`, so that the writer can close it for good; requests wait meanwhile. */
  async suspend(done: Promise<void>): Promise<void> {
    this.#held = done.finally(() => (this.#held = undefined))
    await this.#post({ kind: 'suspend' })
  }

  async close(): Promise<void> {
    if (this.#dead !== undefined) return
    await this.#post({ kind: 'suspend' })
    this.onDeath = () => {}
    await this.#worker.terminate()
  }

  #post<T>(request: ReadRequest): Promise<T> {
    if (this.#dead !== undefined) return Promise.reject(new StoreUnavailableError(this.#dead))
    const id = (this.#lastId += 1)
    return new Promise<T>((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
      this.#worker.postMessage({ id, request })
    })
  }

  #settle(answer: FromReader): void {
    const waiting = this.#waiting.get(answer.id)
    this.#waiting.delete(answer.id)
    if ('value' in answer) return waiting?.resolve(answer.value as never)
    const { reason, session, message } = answer.error
    if (session !== undefined) this.onDamaged(session)
    if (reason === 'damaged') return waiting?.reject(new RequestError('LOG_CORRUPT', message, { details: { session } }))
    waiting?.reject(reason === 'invalid' ? new TypeError(message) : new StoreUnavailableError(message))
  }

  #fail(message: string): void {
    this.#dead ??= message
    const waiting = [...this.#waiting.values()]
    this.#waiting.clear()
    for (const { reject } of waiting) reject(new StoreUnavailableError(message))
    this.onDeath(new Error(message))
  }
}
