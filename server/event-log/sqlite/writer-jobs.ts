import { StoreUnavailableError } from '../event-log.ts'
import type { FromWriter } from './protocol.ts'

/** What the writer thread was asked to do besides appends, and has not answered yet. */
export class WriterJobs {
  readonly #waiting = new Map<number, { resolve: (value: unknown) => void; reject: (error: Error) => void }>()
  #lastId = 0

  /** `send` tells the writer, under the id that its answer will have. */
  start(send: (id: number) => void): Promise<unknown> {
    const id = (this.#lastId += 1)
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      send(id)
    })
  }

  settle({ id, value, error }: Extract<FromWriter, { kind: 'done' }>): void {
    const job = this.#waiting.get(id)
    this.#waiting.delete(id)
    if (error === undefined) job?.resolve(value)
    else job?.reject(new StoreUnavailableError(error))
  }

  failAll(error: Error): void {
    for (const { reject } of this.#waiting.values()) reject(error)
    this.#waiting.clear()
  }
}
