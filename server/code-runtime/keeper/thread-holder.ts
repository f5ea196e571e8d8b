import { Worker } from 'node:worker_threads'
import { heapMbOf, type RuntimeBudgets } from '../budgets.ts'
import type { Heard, Holder, HolderEvents } from './holder.ts'
import type { ToKeeper } from './messages.ts'

/** The server's end of the thread that holds worlds (keeper-thread.js). */
export class ThreadHolder implements Holder {
  readonly #thread: Worker

  constructor(budgets: RuntimeBudgets, { message, lost }: HolderEvents) {
    this.#thread = new Worker(new URL('./keeper-thread.js', import.meta.url), {
      workerData: budgets,
      env: {},
      execArgv: [],
      // A heap that overflows ends the whole process.
      resourceLimits: { maxOldGenerationSizeMb: heapMbOf(budgets) }
    })
    const lose = (why: string): void => {
      this.#thread.removeAllListeners()
      lost(new Error(`The thread that holds the programs ended: ${why}`))
    }
    this.#thread.on('message', (said: Heard) => message(said))
    this.#thread.on('error', (error) => lose(error.message))
    this.#thread.on('exit', () => lose('it ended'))
  }

  post(message: ToKeeper): void {
    this.#thread.postMessage(message)
  }

  room(): undefined {
    return undefined
  }

  ref(): void {
    this.#thread.ref()
  }

  unref(): void {
    this.#thread.unref()
  }

  async end(): Promise<void> {
    await this.#thread.terminate()
  }
}
