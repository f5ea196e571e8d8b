import { Worker } from 'node:worker_threads'
import { type Markdown, WebError } from './web.ts'

export interface ConvertRequest {
  html: string
  maxCharacters: number
}

/** `failed`: the page is not one that can be converted. */
export type ConvertAnswer =
  | { type: 'ready' }
  | { type: 'markdown'; text: string; truncated: boolean }
  | { type: 'failed' }

interface Job {
  readonly request: ConvertRequest
  settle(markdown: Markdown | undefined): void
}

export interface ConverterOptions {
  /** For one page. */
  timeoutMs: number
}

/** Where nested lists or tables blow up, it is the memory that gives out first. */
const heapMb = 256
const startMs = 20_000
/** Of the time for one page; waiting for others counts. */
const longestWaitFactor = 2

/**
 * Converts HTML to Markdown in a thread, one page at a time. A page that takes too long, or too much memory, costs the thread its life
 * and nothing else; the next page gets another one. The thread starts with the first page, and keeps no process alive while idle.
 */
export class MarkdownConverter {
  readonly #timeoutMs: number
  readonly #queue: Job[] = []
  readonly #ending = new Set<Promise<unknown>>()
  #current: Job | undefined
  #thread: Worker | undefined
  #isReady = false
  #isClosed = false
  #timer: NodeJS.Timeout | undefined

  constructor({ timeoutMs }: ConverterOptions) {
    this.#timeoutMs = timeoutMs
  }

  /** Undefined for a page that cannot be converted. Rejects with WEB_ABORTED: for the signal's abort, and once closed. */
  async convert(
    html: string,
    { maxCharacters, signal }: { maxCharacters: number; signal: AbortSignal }
  ): Promise<Markdown | undefined> {
    const aborted = (): WebError => new WebError('WEB_ABORTED', 'the conversion was aborted')
    if (signal.aborted || this.#isClosed) throw aborted()
    const { promise, resolve, reject } = withResolvers<Markdown | undefined>()
    const job = { request: { html, maxCharacters }, settle: resolve }
    const onAbort = (): void => {
      reject(aborted())
      this.#drop(job)
    }
    // Behind others' slow pages, HTML at once is worth more than Markdown too late.
    const timer = setTimeout(() => {
      this.#drop(job)
      resolve(undefined)
    }, this.#timeoutMs * longestWaitFactor)
    signal.addEventListener('abort', onAbort, { once: true })
    this.#queue.push(job)
    this.#next()
    try {
      return await promise
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
    }
  }

  /** Ends the thread and waits for it. What is being converted stays HTML. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#abandon()
    await Promise.all(this.#ending)
  }

  /** Nobody waits for it any more: its time is better spent on the next. */
  #drop(job: Job): void {
    if (this.#current === job) return this.#kill()
    const at = this.#queue.indexOf(job)
    if (at !== -1) this.#queue.splice(at, 1)
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
    this.#timer = setTimeout(() => this.#kill(), this.#timeoutMs)
  }

  #settle(markdown: Markdown | undefined): void {
    clearTimeout(this.#timer)
    const job = this.#current
    this.#current = undefined
    job?.settle(markdown)
    this.#next()
  }

  #kill(): void {
    this.#end()
    this.#settle(undefined)
  }

  #abandon(): void {
    clearTimeout(this.#timer)
    this.#end()
    for (const job of [this.#current, ...this.#queue.splice(0)]) job?.settle(undefined)
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
    const thread = new Worker(new URL('./markdown-thread.js', import.meta.url), {
      name: 'markdown',
      env: {},
      execArgv: [],
      stdout: true,
      resourceLimits: { maxOldGenerationSizeMb: heapMb }
    })
    const isCurrent = (): boolean => this.#thread === thread
    thread.on('message', (answer: ConvertAnswer) => {
      if (!isCurrent()) return
      if (answer.type === 'ready') {
        clearTimeout(this.#timer)
        this.#isReady = true
        this.#next()
      } else this.#settle(answer.type === 'failed' ? undefined : { text: answer.text, truncated: answer.truncated })
    })
    thread.on('error', () => {
      if (!isCurrent()) return
      if (this.#isReady) this.#kill()
      else this.#abandon()
    })
    this.#timer = setTimeout(() => this.#abandon(), startMs)
    return thread
  }
}

function withResolvers<T>() {
  let resolve!: (value: T) => void
  let reject!: (error: Error) => void
  const promise = new Promise<T>((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}
