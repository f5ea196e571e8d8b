import { Worker } from 'node:worker_threads'
import type { PathStep } from '../json/path.ts'
import type { Dialect } from './ajv-limits.ts'

/** What the thread compiles: JSON text of a schema within the limits, and the patterns in it. */
export interface Program {
  readonly dialect: Dialect
  readonly text: string
  readonly patterns: readonly string[]
}

/** One job: to compile, to check a value (as JSON text), or both. Without its program a schema that is not kept is `forgotten`. */
export interface Request {
  readonly key: number
  readonly program?: Program
  readonly value?: string
}

interface Finding {
  readonly steps: readonly PathStep[]
  readonly text: string
}

/** What is wrong in the value or in the schema itself; `details` say why no branch of a union matched. */
export interface Violation extends Finding {
  readonly details: readonly Finding[]
}

export type Answer =
  | { readonly type: 'valid' }
  | { readonly type: 'invalid'; readonly violation: Violation }
  | { readonly type: 'bad-pattern'; readonly index: number; readonly text: string }
  | { readonly type: 'forgotten' }

/** `late`: it ran out of its time. `died`: it took the thread with it, as by using up its memory. Both cost the thread its life. */
export type Outcome = Answer | { readonly type: 'late' | 'died' }

interface Job {
  readonly request: Request
  readonly budgetMs: number
  resolve(outcome: Outcome): void
  reject(error: Error): void
}

const startMs = 20_000
/** A time in which the whole process got less of the processor than the budget is not the schema's; but it ends too. */
const longestWaitFactor = 10

/** One thread for all schemas, one job at a time, replaced after a job that had to be killed. It is started by the first. */
export class SchemaThread {
  readonly #queue: Job[] = []
  #current: Job | undefined
  #thread: Worker | undefined
  #isReady = false
  #isClosed = false
  #timer: NodeJS.Timeout | undefined
  readonly #ending = new Set<Promise<unknown>>()
  readonly #heapMb: number

  constructor(heapMb: number) {
    this.#heapMb = heapMb
  }

  /** Rejects when the thread is closed, or does not start. */
  async ask(request: Request, budgetMs: number): Promise<Outcome> {
    if (this.#isClosed) throw new Error('The schema thread is closed.')
    return new Promise((resolve, reject) => {
      this.#queue.push({ request, budgetMs, resolve, reject })
      this.#next()
    })
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#abandon(new Error('The schema thread is closed.'))
    await Promise.all(this.#ending)
  }

  #next(): void {
    if (this.#current !== undefined) return
    const job = this.#queue[0]
    // An idle thread keeps no process alive.
    if (job === undefined) return this.#thread?.unref()
    this.#thread ??= this.#start()
    this.#thread.ref()
    if (!this.#isReady) return
    this.#current = this.#queue.shift()
    this.#thread.postMessage(job.request)
    this.#watch(job, process.cpuUsage(), job.budgetMs, job.budgetMs * longestWaitFactor)
  }

  #watch(job: Job, since: NodeJS.CpuUsage, waitMs: number, leftMs: number): void {
    this.#timer = setTimeout(() => {
      // After a turn, so that an answer that waits behind a busy main loop is heard first.
      setImmediate(() => {
        if (this.#current !== job) return
        const { user, system } = process.cpuUsage(since)
        const missingMs = Math.min(job.budgetMs - (user + system) / 1000, leftMs - waitMs)
        if (missingMs > 0) this.#watch(job, since, Math.ceil(missingMs), leftMs - waitMs)
        else this.#kill('late')
      })
    }, waitMs)
  }

  #settle(outcome: Outcome): void {
    clearTimeout(this.#timer)
    const job = this.#current
    this.#current = undefined
    job?.resolve(outcome)
    this.#next()
  }

  #kill(type: 'late' | 'died'): void {
    this.#end()
    this.#settle({ type })
  }

  #abandon(error: Error): void {
    clearTimeout(this.#timer)
    this.#end()
    for (const job of [this.#current, ...this.#queue.splice(0)]) job?.reject(error)
    this.#current = undefined
  }

  #end(): void {
    const thread = this.#thread
    this.#thread = undefined
    this.#isReady = false
    if (thread === undefined) return
    const ending = thread.terminate().finally(() => this.#ending.delete(ending))
    this.#ending.add(ending)
  }

  #start(): Worker {
    const thread = new Worker(new URL('./ajv-thread.js', import.meta.url), {
      name: 'schemas',
      env: {},
      execArgv: [],
      stdout: true,
      resourceLimits: { maxOldGenerationSizeMb: this.#heapMb }
    })
    const isCurrent = (): boolean => this.#thread === thread
    thread.on('message', (answer: Answer | { type: 'ready' }) => {
      if (!isCurrent()) return
      if (answer.type !== 'ready') return this.#settle(answer)
      clearTimeout(this.#timer)
      this.#isReady = true
      this.#next()
    })
    thread.on('error', (error) => {
      if (!isCurrent()) return
      if (this.#isReady) this.#kill('died')
      else this.#abandon(new Error('The schema thread does not start.', { cause: error }))
    })
    this.#timer = setTimeout(() => this.#abandon(new Error('The schema thread does not start.')), startMs)
    return thread
  }
}
