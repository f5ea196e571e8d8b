import type { Job, JobOutcome, JobOwner, JobRequest, JobStatus, JobWindow, JobWindowQuery, JobWork } from './jobs.ts'
import { windowOfText } from './text-window.ts'

/** The longest delay that a timer takes. */
const maxTimerMs = 2_147_483_647
/** A label is a whole command at times, and a detail an error's text: longer ones are cut. */
const maxLabelLength = 4_096
const maxDetailLength = 500

interface Waiter {
  release(): void
  /** Its call was aborted: it still hears of an end that comes at the same moment, but nobody is told by it. */
  isAborted: boolean
}

/** What is known of a job that is not of this run of the server. */
export type PastJob = Job & { owner: JobOwner | undefined; output: string }

/** One job: its state, which changes in one direction only, and who waits for the end (backends.md §4.1). */
export class JobRecord {
  readonly owner: JobOwner | undefined
  readonly outputLimitBytes: number | undefined
  /** Absent for a job that is not of this run of the server. */
  readonly work: JobWork | undefined
  /** Resolves with the end. */
  readonly settled: Promise<void>
  /** Somebody has been told of the end, or is about to be: no notice of it is sent (backends.md §4.2). */
  isReported = false
  #job: Job
  #output = ''
  /** What an aborted read had taken already. */
  #unread = ''
  /** Reads queue up, so that none gives what another one does. */
  #reading: Promise<unknown> = Promise.resolve()
  readonly #waiters = new Set<Waiter>()
  #onSettled = (): void => undefined

  private constructor(
    job: Job,
    { owner, outputLimitBytes }: Pick<JobRequest, 'owner' | 'outputLimitBytes'>,
    work?: JobWork
  ) {
    this.#job = Object.freeze(job)
    this.owner = owner
    this.outputLimitBytes = outputLimitBytes
    this.work = work
    this.settled = new Promise((resolve) => {
      this.#onSettled = resolve
    })
  }

  static started(id: string, request: JobRequest, work: JobWork): JobRecord {
    const { kind, label } = request
    return new JobRecord(
      { id, kind, label: cut(label, maxLabelLength), status: 'running', startedAt: Date.now() },
      request,
      work
    )
  }

  static past({ owner, output, ...job }: PastJob): JobRecord {
    const record = new JobRecord(job, owner === undefined ? {} : { owner })
    record.#output = output
    record.isReported = true
    record.#onSettled()
    return record
  }

  get job(): Job {
    return this.#job
  }

  get isLive(): boolean {
    return isLiveStatus(this.#job.status)
  }

  /** Takes the first outcome, then releases who waits. False when there was one already. */
  settle({ status, detail, output = '' }: JobOutcome): boolean {
    if (!this.isLive) return false
    const told = detail === undefined ? {} : { detail: cut(detail.replaceAll(/\s*\n\s*/g, ' '), maxDetailLength) }
    this.#job = Object.freeze({ ...this.#job, status, ...told, finishedAt: Date.now() })
    this.#output = output
    const waiters = [...this.#waiters]
    if (waiters.some(({ isAborted }) => !isAborted)) this.isReported = true
    for (const waiter of waiters) waiter.release()
    this.#onSettled()
    return true
  }

  /** Asks live work to end; a throw of the producer changes nothing. False when the job has ended. */
  cancel(reason: string | undefined): boolean {
    if (this.isLive) {
      this.work?.cancel(reason)
      if (this.#job.status === 'running') this.#job = Object.freeze({ ...this.#job, status: 'stopping' })
      this.isReported = true
      return true
    }
    this.isReported = true
    return false
  }

  read(signal: AbortSignal | undefined): Promise<{ text: string; job: Job }> {
    const read = this.#reading.then(() => this.#read(signal))
    this.#reading = read.catch(() => undefined)
    return read
  }

  async #read(signal: AbortSignal | undefined): Promise<{ text: string; job: Job }> {
    signal?.throwIfAborted()
    // Taken before the output: a job that is told to be over has given all of it.
    const job = this.#job
    const text = this.work?.readDelta === undefined ? this.#output : await this.#delta(signal)
    if (!isLiveStatus(job.status)) this.isReported = true
    return { text, job }
  }

  async #delta(signal: AbortSignal | undefined): Promise<string> {
    const held = this.#unread
    // While the job goes on, one delta at a time: aborted reads in a row must not pile up what a flood prints.
    const text = held !== '' && this.isLive ? held : held + ((await this.work?.readDelta?.()) ?? '')
    this.#unread = signal?.aborted === true ? text : ''
    signal?.throwIfAborted()
    return text
  }

  wait({ timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal }): Promise<Job> {
    if (!this.isLive) {
      this.isReported = true
      return Promise.resolve(this.#job)
    }
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        clearTimeout(timer)
        signal.removeEventListener('abort', onAbort)
        this.#waiters.delete(waiter)
      }
      const release = (): void => {
        leave()
        resolve(this.#job)
      }
      const waiter: Waiter = { release, isAborted: false }
      // An end whose promises are settled by now, but not heard of yet, came first.
      const onAbort = (): void => {
        waiter.isAborted = true
        setImmediate(() => {
          if (!this.#waiters.has(waiter)) return
          leave()
          reject(signal.reason as Error)
        })
      }
      const timer = setTimeout(release, Math.min(timeoutMs, maxTimerMs))
      this.#waiters.add(waiter)
      if (signal.aborted) onAbort()
      else signal.addEventListener('abort', onAbort, { once: true })
    })
  }

  async readWindow(query: JobWindowQuery): Promise<JobWindow> {
    if (this.work?.readWindow !== undefined) return this.work.readWindow(query)
    return windowOfText(query.stream === 'stdout' ? this.#output : '', query)
  }
}

const isLiveStatus = (status: JobStatus): boolean => status === 'running' || status === 'stopping'

/** At most so many UTF-16 units, and no half of a character. */
function cut(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1).replace(/[\uD800-\uDBFF]$/, '')}…`
}
