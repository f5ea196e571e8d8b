import { JobRecord, type PastJob } from './job-record.ts'
import {
  type Job,
  type JobEntry,
  JobError,
  type JobOutcome,
  type JobOwner,
  type JobRequest,
  type Jobs,
  type JobWindow,
  type JobWindowQuery
} from './jobs.ts'

export interface JobRegistryOptions {
  /** Live jobs of one owner, those included that are being ended. */
  maxConcurrentPerOwner: number
  /** Finished jobs that stay listed, of one owner and in all: the oldest make room. */
  maxFinishedPerOwner: number
  maxFinished: number
  /** Whether this very object is the registered agent of its session now. */
  isOwnerLive(owner: JobOwner): boolean
  warn(message: string, details: object): void
}

/** A job was registered, has another state, or is no longer listed. */
export interface JobChange extends JobEntry {
  readonly change: 'started' | 'changed' | 'removed'
}

/** A job has ended, and nobody knows. */
export interface JobCompletion extends JobEntry {
  readonly outputLimitBytes: number | undefined
}

/** The jobs of this server (backends.md §4.1). */
export class JobRegistry implements Jobs {
  readonly #options: JobRegistryOptions
  readonly #records = new Map<string, JobRecord>()
  readonly #lastNumbers = new Map<string, number>()
  readonly #controllers = new Set<(owner: JobOwner | undefined) => boolean>()
  readonly #onChange = new Set<(change: JobChange) => void>()
  readonly #onCompletion = new Set<(completion: JobCompletion) => void>()
  #disposal: Promise<void> | undefined

  constructor(options: JobRegistryOptions) {
    this.#options = options
  }

  /** Numbering goes on after these; called before the first start. */
  continueAfter(lastNumbers: Iterable<readonly [kind: string, last: number]>): void {
    for (const [kind, last] of lastNumbers) this.#lastNumbers.set(kind, last)
  }

  /** Lists jobs of an earlier run of the server, in this order and before those of this one. */
  restore(jobs: readonly PastJob[]): void {
    const present = [...this.#records]
    this.#records.clear()
    for (const job of jobs) this.#records.set(job.id, JobRecord.past(job))
    for (const [id, record] of present) this.#records.set(id, record)
  }

  onChange(listener: (change: JobChange) => void): () => void {
    this.#onChange.add(listener)
    return () => void this.#onChange.delete(listener)
  }

  /** Hears of each end that nobody was told of; every other listener has heard of it then. */
  onCompletion(listener: (completion: JobCompletion) => void): () => void {
    this.#onCompletion.add(listener)
    return () => void this.#onCompletion.delete(listener)
  }

  attachController(serves: (owner: JobOwner | undefined) => boolean): () => void {
    const own = (owner: JobOwner | undefined): boolean => serves(owner)
    this.#controllers.add(own)
    return () => void this.#controllers.delete(own)
  }

  isServed(owner: JobOwner | undefined): boolean {
    return [...this.#controllers].some((serves) => serves(owner))
  }

  start(request: JobRequest): Job {
    this.#preflight(request)
    const work = request.run()
    const number = (this.#lastNumbers.get(request.kind) ?? 0) + 1
    this.#lastNumbers.set(request.kind, number)
    const record = JobRecord.started(`${request.kind}-${number}`, request, work)
    this.#records.set(record.job.id, record)
    work.done.then(
      (outcome) => this.#settle(record, outcome),
      (error: unknown) => this.#settle(record, { status: 'failed', detail: textOf(error) })
    )
    this.#announce(record, 'started')
    return record.job
  }

  #preflight({ kind, label, owner, outputLimitBytes }: JobRequest): void {
    if (this.#disposal !== undefined)
      throw new JobError('SERVICE_DISPOSING', 'the server is stopping: no job is started')
    if (!this.isServed(owner)) {
      throw new JobError('NO_CONTROLLER', 'no job is started here: there is no tool to read or end it with')
    }
    if (kind === '' || label === '') throw new JobError('INVALID_JOB', 'a job needs a kind and a label')
    if (outputLimitBytes !== undefined && !(Number.isSafeInteger(outputLimitBytes) && outputLimitBytes > 0)) {
      throw new JobError('INVALID_JOB', 'outputLimitBytes is not a positive whole number')
    }
    if (owner !== undefined && !this.#options.isOwnerLive(owner)) {
      throw new JobError('OWNER_NOT_LIVE', 'the session that the job would belong to has ended')
    }
    const limit = this.#options.maxConcurrentPerOwner
    const live = [...this.#records.values()].filter((record) => record.owner === owner && record.isLive)
    if (live.length < limit) return
    throw new JobError(
      'JOB_LIMIT',
      `${live.length} background jobs are running, and ${limit} is the limit: wait for one to end, or end one with job_kill`
    )
  }

  list(caller: JobOwner | undefined): Job[] {
    return [...this.#records.values()].filter((record) => isReachable(record, caller)).map(({ job }) => job)
  }

  all(): JobEntry[] {
    return [...this.#records.values()].map(({ job, owner }) => ({ job, owner }))
  }

  find(id: string): JobEntry | undefined {
    const record = this.#records.get(id)
    return record === undefined ? undefined : { job: record.job, owner: record.owner }
  }

  async read(id: string, caller: JobOwner | undefined, signal?: AbortSignal): Promise<{ text: string; job: Job }> {
    return this.#reach(id, caller).read(signal)
  }

  kill(
    id: string,
    caller: JobOwner | undefined,
    reason?: string
  ): { outcome: 'cancellation-requested' | 'already-finished'; job: Job } {
    const record = this.#reach(id, caller)
    return { outcome: this.#cancel(record, reason) ? 'cancellation-requested' : 'already-finished', job: record.job }
  }

  async wait(
    id: string,
    caller: JobOwner | undefined,
    options: { timeoutMs: number; signal: AbortSignal }
  ): Promise<Job> {
    const { timeoutMs } = options
    if (!(Number.isFinite(timeoutMs) && timeoutMs > 0)) {
      throw new JobError('INVALID_WAIT', `a wait takes more than 0 milliseconds, not ${timeoutMs}`)
    }
    return this.#reach(id, caller).wait(options)
  }

  outputLimitOf(id: string, caller: JobOwner | undefined): number | undefined {
    const record = this.#records.get(id)
    return record !== undefined && isReachable(record, caller) ? record.outputLimitBytes : undefined
  }

  async readWindow(id: string, query: JobWindowQuery): Promise<JobWindow> {
    const record = this.#records.get(id)
    if (record === undefined) throw unknownJob(id)
    return record.readWindow(query)
  }

  async whenQuiet(isMeant: (owner: JobOwner) => boolean): Promise<void> {
    const isAwaited = ({ owner, isLive }: JobRecord): boolean => isLive && owner !== undefined && isMeant(owner)
    for (let live = [...this.#records.values()].filter(isAwaited); live.length > 0;) {
      await Promise.all(live.map(({ settled }) => settled))
      live = [...this.#records.values()].filter(isAwaited)
    }
  }

  /** Ends the live jobs of these owners, awaits that, and forgets all of theirs. Owners are meant by identity, not by id. */
  disposeOwners(isMeant: (owner: JobOwner) => boolean): Promise<void> {
    return this.#end(({ owner }) => owner !== undefined && isMeant(owner))
  }

  /** The same for all jobs; nothing is started any more. */
  dispose(): Promise<void> {
    this.#disposal ??= this.#end(() => true)
    return this.#disposal
  }

  async #end(isMeant: (record: JobRecord) => boolean): Promise<void> {
    const records = [...this.#records.values()].filter(isMeant)
    for (const record of records) {
      try {
        this.#cancel(record, 'its owner has ended')
      } catch (error) {
        // Waiting for work that cannot be told to end would never be over.
        this.#options.warn('a job could not be ended, its work may go on', { err: error, job: record.job.id })
        record.isReported = true
        this.#settle(record, { status: 'failed', detail: textOf(error) })
      }
    }
    await Promise.all(records.map(({ settled }) => settled))
    const leftovers = await Promise.allSettled(records.map(async ({ work }) => work?.endLeftovers?.()))
    for (const outcome of leftovers) {
      if (outcome.status === 'rejected') {
        this.#options.warn('what a job left running could not be ended', { err: outcome.reason as unknown })
      }
    }
    for (const record of records) this.#remove(record)
  }

  #reach(id: string, caller: JobOwner | undefined): JobRecord {
    const record = this.#records.get(id)
    if (record === undefined) throw unknownJob(id)
    if (!isReachable(record, caller)) throw new JobError('FOREIGN_JOB', `job ${id} belongs to another session`)
    return record
  }

  #cancel(record: JobRecord, reason: string | undefined): boolean {
    const before = record.job
    const wasLive = record.cancel(reason)
    if (record.job !== before) this.#announce(record, 'changed')
    return wasLive
  }

  /** The order is part of the contract: committed, waiters released, observers, completion listeners (backends.md §4.1). */
  #settle(record: JobRecord, outcome: JobOutcome): void {
    if (!record.settle(outcome)) return
    this.#announce(record, 'changed')
    if (!record.isReported) {
      const { job, owner, outputLimitBytes } = record
      this.#tell(this.#onCompletion, { job, owner, outputLimitBytes })
    }
    this.#makeRoom(record.owner)
  }

  /** Finished jobs keep some output each: a server that runs for months cannot keep all of them. */
  #makeRoom(owner: JobOwner | undefined): void {
    const finished = [...this.#records.values()].filter((record) => !record.isLive)
    const ofOwner = finished.filter((record) => record.owner?.id === owner?.id)
    const { maxFinishedPerOwner, maxFinished } = this.#options
    const oldest = [
      ...ofOwner.slice(0, Math.max(0, ofOwner.length - maxFinishedPerOwner)),
      ...finished.slice(0, Math.max(0, finished.length - maxFinished))
    ]
    for (const record of oldest) this.#remove(record)
  }

  #remove(record: JobRecord): void {
    if (this.#records.delete(record.job.id)) this.#announce(record, 'removed')
  }

  #announce({ job, owner }: JobRecord, change: JobChange['change']): void {
    this.#tell(this.#onChange, { job, owner, change })
  }

  #tell<T>(listeners: ReadonlySet<(event: T) => void>, event: T): void {
    for (const listener of listeners) {
      try {
        listener(event)
      } catch (error) {
        this.#options.warn('a listener to jobs failed', { err: error })
      }
    }
  }
}

const isReachable = ({ owner }: JobRecord, caller: JobOwner | undefined): boolean =>
  owner === undefined || owner.id === caller?.id

const unknownJob = (id: string): JobError => new JobError('UNKNOWN_JOB', `there is no job ${JSON.stringify(id)}`)

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
