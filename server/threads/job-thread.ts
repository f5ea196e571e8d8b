import { Worker } from 'node:worker_threads'

/** What came of a job that took the thread with it: `late`, it ran out of its time; `died`, as by using up its memory. */
export interface Killed {
  readonly type: 'late' | 'died'
}

export interface JobThreadOptions {
  /** A module that posts `{ type: 'ready' }`, and then one answer to each message. */
  entry: URL
  name: string
  /** Of its JavaScript heap, in MiB. */
  heapMb: number
}

interface Job<Request, Answer> {
  readonly request: Request
  readonly budgetMs: number
  resolve(outcome: Answer | Killed): void
  reject(error: unknown): void
}

const startMs = 20_000
/** A time in which the whole process got less of the processor than the budget is not the job's fault; but it ends too. */
const longestWaitFactor = 10

/**
 * A thread for work that may never end, or use up its memory: one job at a time, and a job that has to be killed costs the thread its
 * life and nothing else. It starts with the first job, is replaced by the next one when it is gone, and keeps no process alive while
 * idle.
 */
export class JobThread<Request, Answer extends { readonly type: string }> {
  readonly #options: JobThreadOptions
  #queue: Job<Request, Answer>[] = []
  readonly #ending = new Set<Promise<unknown>>()
  #current: Job<Request, Answer> | undefined
  #thread: Worker | undefined
  #isReady = false
  #isClosed = false
  #timer: NodeJS.Timeout | undefined

  constructor(options: JobThreadOptions) {
    this.#options = options
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /**
   * Runs a job when those before it are done. `budgetMs` is the processor time it may take. Rejects with the reason of `signal` when that
   * aborts, and with an `Error` when the thread is closed or does not start.
   */
  async run(request: Request, budgetMs: number, signal?: AbortSignal): Promise<Answer | Killed> {
    signal?.throwIfAborted()
    if (this.#isClosed) throw this.#error('is closed')
    const { promise, resolve, reject } = withResolvers<Answer | Killed>()
    const job = { request, budgetMs, resolve, reject }
    const abort = (): void => {
      reject(signal?.reason)
      this.#drop(job)
    }
    signal?.addEventListener('abort', abort, { once: true })
    this.#queue.push(job)
    this.#next()
    try {
      return await promise
    } finally {
      signal?.removeEventListener('abort', abort)
    }
  }

  /** Ends the thread and waits for that; what still waits for an answer rejects. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#abandon(this.#error('is closed'))
    await Promise.all(this.#ending)
  }

  /** Nobody waits for it any more: its time is better spent on the next. */
  #drop(job: Job<Request, Answer>): void {
    if (this.#current === job) this.#kill('late')
    else this.#queue = this.#queue.filter((other) => other !== job)
  }

  #next(): void {
    if (this.#current !== undefined) return
    const [job] = this.#queue
    if (job === undefined) return this.#thread?.unref()
    this.#thread ??= this.#start()
    this.#thread.ref()
    if (!this.#isReady) return
    this.#current = this.#queue.shift()
    this.#thread.postMessage(job.request)
    this.#watch(job, process.cpuUsage(), job.budgetMs, job.budgetMs * longestWaitFactor)
  }

  #watch(job: Job<Request, Answer>, since: NodeJS.CpuUsage, waitMs: number, leftMs: number): void {
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

  #settle(outcome: Answer | Killed): void {
    clearTimeout(this.#timer)
    const job = this.#current
    this.#current = undefined
    job?.resolve(outcome)
    this.#next()
  }

  #kill(type: Killed['type']): void {
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
    const { entry, name, heapMb } = this.#options
    const thread = new Worker(entry, {
      name,
      env: {},
      execArgv: [],
      stdout: true,
      resourceLimits: { maxOldGenerationSizeMb: heapMb }
    })
    const isCurrent = (): boolean => this.#thread === thread
    thread.on('message', (answer: Answer | { type: 'ready' }) => {
      if (!isCurrent()) return
      if (this.#isReady) return this.#settle(answer as Answer)
      clearTimeout(this.#timer)
      this.#isReady = true
      this.#next()
    })
    thread.on('error', (error) => {
      if (!isCurrent()) return
      if (this.#isReady) this.#kill('died')
      else this.#abandon(this.#error('does not start', error))
    })
    this.#timer = setTimeout(() => this.#abandon(this.#error('does not start')), startMs)
    return thread
  }

  #error(text: string, cause?: unknown): Error {
    return new Error(`The thread of ${this.#options.name} ${text}.`, { cause })
  }
}

function withResolvers<T>() {
  let resolve!: (value: T) => void
  let reject!: (reason: unknown) => void
  const promise = new Promise<T>((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}
