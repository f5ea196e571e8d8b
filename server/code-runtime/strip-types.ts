import { Worker } from 'node:worker_threads'
import { isPlainJavaScript } from './plain-javascript.ts'

/**
 * What the stripper's thread answers: `broken` means that its instance can no longer be trusted, `isWorn` that it holds more memory than
 * it should keep.
 */
export type StripAnswer = { isWorn?: boolean } & (
  | { type: 'ready' }
  | { type: 'code'; code: string }
  | { type: 'refused'; message: string }
  | { type: 'broken' }
)

export type Stripped = { code: string } | { refusal: string }

/** How long one program may take; 1 MiB takes some 100 ms. */
const deadlineMs = 2_000
const startMs = 20_000

interface Job {
  readonly program: string
  /** The program has already ruined one instance, or was the one that happened to meet a ruined one. */
  isRetried: boolean
  settle(stripped: Stripped): void
}

/**
 * Erases the types of programs without moving a character (code-mode.md §7). It works in a thread of its own that is replaced when a
 * program ruins it or takes too long; such a program is tried once more on a fresh one, since the damage may be another's.
 */
export class TypeStripper {
  #queue: Job[] = []
  #current: Job | undefined
  #thread: Worker | undefined
  #isReady = false
  #timer: NodeJS.Timeout | undefined
  #isDisposed = false

  constructor() {
    this.#replaceThread()
  }

  /** A program as its world runs it; the thread is spared what needs no erasing. */
  async prepare(program: string): Promise<Stripped> {
    return isPlainJavaScript(program) ? { code: program } : this.strip(program)
  }

  /** The program without types, or the reason, in one line, why it is none. Rejects once disposed. */
  async strip(program: string): Promise<Stripped> {
    if (this.#isDisposed) throw new Error('The type stripper is disposed.')
    return new Promise((settle) => {
      this.#queue.push({ program, isRetried: false, settle })
      this.#thread?.ref()
      this.#next()
    })
  }

  async dispose(): Promise<void> {
    this.#isDisposed = true
    clearTimeout(this.#timer)
    for (const job of [this.#current, ...this.#queue]) job?.settle({ refusal: 'The code runtime is disposed.' })
    this.#queue = []
    this.#current = undefined
    const thread = this.#thread
    this.#thread = undefined
    await thread?.terminate()
  }

  #next(): void {
    if (!this.#isReady || this.#current !== undefined) return
    const job = this.#queue.shift()
    if (job === undefined) {
      // An idle stripper keeps no process alive.
      this.#thread?.unref()
      return
    }
    this.#current = job
    this.#thread?.postMessage(job.program)
    this.#timer = setTimeout(() => this.#failCurrent(true), deadlineMs)
  }

  #answer(answer: StripAnswer): void {
    clearTimeout(this.#timer)
    if (answer.type === 'ready') this.#isReady = true
    else if (answer.type === 'broken') return this.#failCurrent()
    else this.#settleCurrent(answer.type === 'code' ? { code: answer.code } : { refusal: answer.message })
    if (answer.isWorn === true) this.#replaceThread()
    else this.#next()
  }

  #failCurrent(isLate = false): void {
    const job = this.#current
    this.#current = undefined
    if (job?.isRetried) {
      job.settle({ refusal: `SyntaxError: the program is too ${isLate ? 'complex' : 'deeply nested'} to parse.` })
    } else if (job !== undefined) {
      job.isRetried = true
      // What was only slow needs no fresh instance, and those behind it have waited long enough.
      if (isLate) this.#queue.push(job)
      else this.#queue.unshift(job)
    }
    this.#replaceThread()
  }

  #settleCurrent(stripped: Stripped): void {
    this.#current?.settle(stripped)
    this.#current = undefined
  }

  #replaceThread(): void {
    void this.#thread?.terminate()
    this.#isReady = false
    const thread = new Worker(new URL('./strip-thread.js', import.meta.url), {
      env: {},
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: 512 }
    })
    this.#thread = thread
    const isCurrent = () => this.#thread === thread && !this.#isDisposed
    thread.on('message', (answer: StripAnswer) => {
      if (isCurrent()) this.#answer(answer)
    })
    thread.on('error', () => {
      if (isCurrent()) this.#failCurrent()
    })
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#failCurrent(), startMs)
    this.#timer.unref()
    if (this.#queue.length === 0) thread.unref()
  }
}
