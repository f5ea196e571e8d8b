import { CodedError } from '../../errors.ts'

/** Whom background work belongs to: known by identity, never by a copy. `id` is that of its session (backends.md §4.1). */
export interface JobOwner {
  readonly id: string
}

/** `stopping` is still live; `lost` is what a server that ended left running. */
export type JobStatus = 'running' | 'stopping' | 'completed' | 'killed' | 'failed' | 'lost'

/** A job as anybody sees it (backends.md §4.3). Times are epoch milliseconds; members that do not apply are absent. */
export interface Job {
  readonly id: string
  readonly kind: string
  readonly label: string
  readonly status: JobStatus
  readonly detail?: string
  readonly startedAt: number
  readonly finishedAt?: number
}

/** How work ended. The first outcome counts. */
export interface JobOutcome {
  status: 'completed' | 'killed' | 'failed'
  /** A few words for the status line, as `exit code: 0`. */
  detail?: string
  /** Of a job without `readDelta`: its whole output, which every read gives from then on. */
  output?: string
}

/** A piece of the output for people, read without consuming it. Offsets count the bytes of one stream. */
export interface JobWindow {
  text: string
  /** Where `text` begins: later than asked for when that is no longer kept, earlier when it lies beyond the end. */
  from: number
  next: number
  /** Bytes between the asked offset and `from` are no longer kept. */
  lossy: boolean
}

export interface JobWindowQuery {
  stream: 'stdout' | 'stderr'
  /** Non-negative; beyond the end means the end. */
  after: number
  /** At most so many bytes, but one whole character at least. */
  maxBytes: number
}

/** Work under way, as its producer hands it over. */
export interface JobWork {
  /** Settles when the work has really ended: until then it holds its owner's slot. A rejection is `failed` with the error's text. */
  readonly done: Promise<JobOutcome>
  /** Asks the work to end and returns at once; called again by each further kill. A throw says that nothing was asked. */
  cancel(reason?: string): void
  /** Output since the last call, `''` when there is none, at any time, also after the end. Calls never overlap. */
  readDelta?(): Promise<string> | string
  readWindow?(query: JobWindowQuery): Promise<JobWindow>
  /** Ends what finished work has left running; called when its owner is disposed. */
  endLeftovers?(): Promise<void>
}

export interface JobRequest {
  /** Ids are `<kind>-<n>`, counted by kind over the whole server. */
  kind: string
  label: string
  /** Absent: reachable by all, admitted from one bucket. */
  owner?: JobOwner
  /** Bytes of a whole `job_output` result and of the completion notice. */
  outputLimitBytes?: number
  /** Called once, after every check and before an id is given: a refused start starts nothing. A throw is the start's own. */
  run(): JobWork
}

export interface JobEntry {
  readonly job: Job
  readonly owner: JobOwner | undefined
}

/**
 * Background jobs (backends.md §4.1). Whoever shares the owner's session id reaches a job; `caller` absent reaches unowned jobs only.
 * Every method that takes an id throws `JobError` `UNKNOWN_JOB` or `FOREIGN_JOB`.
 */
export interface Jobs {
  /**
   * Throws `JobError`, in this order: `SERVICE_DISPOSING`, `NO_CONTROLLER`, `INVALID_JOB`, `OWNER_NOT_LIVE`, `JOB_LIMIT`; nothing has
   * run then.
   */
  start(request: JobRequest): Job
  /** What the caller reaches, in order of registration, finished ones included. */
  list(caller: JobOwner | undefined): Job[]
  /**
   * The output that no read has given yet, with the state as it was before the reading; of a job without deltas its final output, always. Rejects
   * with the signal's reason once that is aborted, and the next read gives the same then. Reading a finished job marks it reported.
   */
  read(id: string, caller: JobOwner | undefined, signal?: AbortSignal): Promise<{ text: string; job: Job }>
  /** Throws what the producer's `cancel` throws; the state is unchanged then. Either outcome marks the job reported. */
  kill(
    id: string,
    caller: JobOwner | undefined,
    reason?: string
  ): { outcome: 'cancellation-requested' | 'already-finished'; job: Job }
  /**
   * Resolves when the job has ended, or after `timeoutMs` with the live job. Rejects with the signal's reason, unless the end came
   * first; the job goes on. Throws `INVALID_WAIT` for a timeout that is no positive finite number.
   */
  wait(id: string, caller: JobOwner | undefined, options: { timeoutMs: number; signal: AbortSignal }): Promise<Job>
  /** The producer's byte limit of what is told of a job; undefined where there is none, or the caller does not reach the job. */
  outputLimitOf(id: string, caller: JobOwner | undefined): number | undefined
  /** A controller is what lets owners read and end their jobs: without one that `serves` an owner nothing starts. Returns the undo. */
  attachController(serves: (owner: JobOwner | undefined) => boolean): () => void
  isServed(owner: JobOwner | undefined): boolean
  /** Resolves when no job of these owners is live. */
  whenQuiet(isMeant: (owner: JobOwner) => boolean): Promise<void>
  /** Of everybody, for operators, in order of registration. */
  all(): JobEntry[]
  find(id: string): JobEntry | undefined
  /** A window of the kept output, for operators; empty where a job keeps none. */
  readWindow(id: string, query: JobWindowQuery): Promise<JobWindow>
}

/** A refusal of the job registry; its code says which. */
export class JobError extends CodedError {}

declare module '../../services.ts' {
  interface Services {
    jobs: Jobs
  }
}
