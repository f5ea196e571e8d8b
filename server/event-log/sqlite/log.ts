import type { Worker } from 'node:worker_threads'
import { admit } from '../admission.ts'
import { CommitListeners, committedEvents, StateListeners } from '../commits.ts'
import {
  type Append,
  type EventLog,
  type EventPage,
  type EventQuery,
  type LogState,
  type Row,
  type SessionPage,
  type SessionQuery,
  type StoredEvent,
  StoreUnavailableError,
  type TableName,
  tables
} from '../event-log.ts'
import type { StrikeOut } from '../../json/strike-out.ts'
import { GroupCommit, type Waiting } from './group-commit.ts'
import { LogOpenError, type LogOpenCode } from './open-error.js'
import type {
  FromWriter,
  RetentionProgress,
  RetentionStep,
  ToWriter,
  Trouble,
  WireResult,
  WriterOptions
} from './protocol.ts'
import { ReaderThread } from './reader.ts'
import { Reads } from './reads.ts'
import { WriterJobs } from './writer-jobs.ts'
import { assertRuntime } from './runtime.ts'
import { firstMessage, startThread } from './threads.ts'
import { refusal } from './wire.ts'

export interface SqliteLogOptions {
  /** Made when missing. Held by a lock file while the log is open. */
  directory: string
  /** `full` (default): an acknowledged event survives a power cut; `normal`: it survives the death of the process. */
  synchronous?: 'full' | 'normal'
  /** Size of the disk reserve; 16 MiB by default, 0 for none. */
  ballastBytes?: number
  /** Applied to all that is stored but registrations and tokens. */
  strikeOut?: StrikeOut | undefined
  /** How often a log that cannot store looks whether it can again; 1000 by default. */
  probeMs?: number
  /** The log is beyond repair while running: nothing is acknowledged any more and the process should exit with 74. */
  onFatal?: (error: Error) => void
  onWarning?: (message: string, details: Record<string, unknown>) => void
}

type BatchListener = (appends: readonly { readonly since: number }[], now: number) => void

const defaultBallastBytes = 16 * 1024 * 1024

/** Opens the log of a directory; rejects with `LogOpenError`, whose `exitCode` is the process's (reliability.md §2.1). */
export async function openSqliteLog(options: SqliteLogOptions): Promise<SqliteLog> {
  assertRuntime()
  const { directory, synchronous = 'full', ballastBytes = defaultBallastBytes, probeMs = 1000 } = options
  const threadOptions: WriterOptions = { directory, synchronous, ballastBytes, probeMs, tables }
  const writer = startThread(new URL('./writer-thread.js', import.meta.url), threadOptions)
  // Both threads take a while to load the codec, so they do it side by side; the reader opens nothing before it is asked.
  const reader = new ReaderThread(threadOptions)
  const first = await firstMessage(writer).catch(async (error: unknown) => {
    await reader.close()
    throw error
  })
  if (first.kind === 'refused') {
    await reader.close()
    throw new LogOpenError(first.code as LogOpenCode, first.message)
  }
  if (first.kind !== 'ready') throw new Error(`the writer thread began with ${first.kind}`)
  const { lostTail, damaged, logId } = first
  if (lostTail) options.onWarning?.('the newest events of the last run are gone; the log has a new id', { logId })
  if (damaged.length > 0) options.onWarning?.('sessions are damaged and refused', { sessions: damaged })
  return new SqliteLog(writer, reader, first, options)
}

export class SqliteLog implements EventLog {
  readonly logId: string
  /** The last run's newest events are missing, so `logId` is new (reliability.md §0.4). */
  readonly hasLostTail: boolean
  /** Sessions found broken; their events are neither read nor added to. */
  readonly damagedSessions: Set<string>
  readonly #writer: Worker
  readonly #reader: ReaderThread
  readonly #reads: Reads
  readonly #options: SqliteLogOptions
  readonly #listeners = new CommitListeners()
  readonly #stateListeners = new StateListeners()
  readonly #queue = new GroupCommit((appends) => this.#tell({ kind: 'batch', appends }))
  readonly #jobs = new WriterJobs()
  #head: number
  #commits = 0
  #state: LogState = 'open'
  #trouble: Trouble | 'fatal' | undefined
  #onBatch: BatchListener | undefined
  #reopened: (() => void) | undefined
  #closed: Promise<void> | undefined
  #onClosed: (() => void) | undefined

  constructor(
    writer: Worker,
    reader: ReaderThread,
    ready: Extract<FromWriter, { kind: 'ready' }>,
    options: SqliteLogOptions
  ) {
    this.logId = ready.logId
    this.hasLostTail = ready.lostTail
    this.damagedSessions = new Set(ready.damaged)
    this.#head = ready.head
    this.#options = options
    this.#writer = writer
    writer.on('message', (message: FromWriter) => this.#onMessage(message))
    writer.on('error', (error: Error) => this.#die(error))
    writer.on('exit', () => {
      this.#onClosed?.()
      this.#die(new Error('the writer thread ended'))
    })
    this.#reader = reader
    this.#reads = new Reads(reader)
    reader.onDeath = (error) => this.#die(error)
    reader.onDamaged = (session) => {
      this.damagedSessions.add(session)
      this.#tell({ kind: 'damaged', session })
    }
  }

  get state(): LogState {
    return this.#state
  }

  get head(): number {
    return this.#head
  }

  /** Transactions committed since the log was opened. */
  get commits(): number {
    return this.#commits
  }

  async append(request: Append): Promise<readonly StoredEvent[]> {
    this.#listeners.assertNotTelling(request.session)
    const append = admit(request, this.#options.strikeOut)
    if (this.#closed !== undefined) throw new StoreUnavailableError('the event log is closed')
    if (this.#isRefused(append)) throw new StoreUnavailableError(`the event log is unavailable (${this.#trouble})`)
    return new Promise((resolve, reject) => this.#queue.add({ append, since: performance.now(), resolve, reject }))
  }

  read(query: EventQuery): Promise<EventPage> {
    return this.#reads.page(query)
  }

  rows(table: TableName, where: Row, limit = 1000): Promise<Row[]> {
    return this.#reads.rows(table, where, limit)
  }

  sessions(query: SessionQuery): Promise<SessionPage> {
    return this.#reads.sessions(query)
  }

  unfinishedSessions(after: string, limit: number): Promise<string[]> {
    return this.#reads.unfinishedSessions(after, limit)
  }

  lastSeq(session: string, type: string): Promise<number> {
    return this.#reads.lastSeq(session, type)
  }

  exportSession(session: string): AsyncGenerator<Uint8Array> {
    return this.#reads.exportSession(session)
  }

  async prune(session: string, beforeSeq: number): Promise<void> {
    await this.#job((id) => ({ kind: 'prune', id, session, beforeSeq }))
  }

  /**
   * One transaction of retention, of 500 events at most, between which appends are served (reliability.md §2.5). Sessions with a call
   * that has not ended are spared.
   */
  async retain(step: RetentionStep): Promise<RetentionProgress> {
    return (await this.#job((id) => ({ kind: 'retain', id, step }))) as RetentionProgress
  }

  onCommit(listener: (events: readonly StoredEvent[]) => void): () => void {
    return this.#listeners.add(listener)
  }

  /** The listener hears of each transaction: when its appends came, and what time it is now (`performance.now`). */
  onBatch(listener: BatchListener): void {
    this.#onBatch = listener
  }

  onState(listener: (state: LogState) => void): () => void {
    return this.#stateListeners.add(listener)
  }

  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    if (this.#trouble !== 'fatal') {
      await this.#queue.idle()
      await this.#reader.close()
      await new Promise<void>((resolve) => {
        this.#onClosed = resolve
        this.#tell({ kind: 'close' })
      })
    } else {
      await this.#reader.close()
    }
    await this.#writer.terminate()
    this.#setState('closed')
  }

  #tell(message: ToWriter): void {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
    this.#writer.postMessage(message)
  }

  #isRefused({ closing }: { closing: boolean }): boolean {
    return this.#state !== 'open' && !(closing && this.#trouble === 'disk-full')
  }

  #onMessage(message: FromWriter): void {
    switch (message.kind) {
      case 'acks':
        return this.#settle(this.#queue.answered(), message.results)
      case 'state':
        this.#trouble = message.trouble
        this.#reopened?.()
        this.#reopened = undefined
        return this.#setState(message.state, message.message)
      case 'reopen?':
        return void this.#letReopen()
      case 'fatal':
        return this.#die(new Error(message.message))
      case 'warning':
        return this.#options.onWarning?.(message.message, message.details)
      case 'done':
        return this.#jobs.settle(message)
      case 'closed':
        return this.#onClosed?.()
      case 'ready':
      case 'refused':
    }
  }

  #settle(batch: readonly Waiting[], results: readonly WireResult[]): void {
    if (results.some((result) => Array.isArray(result))) this.#commits += 1
    this.#onBatch?.(batch, performance.now())
    for (const [index, waiting] of batch.entries()) {
      const result = results[index]
      if (!Array.isArray(result)) {
        waiting.reject(refusal(result))
        continue
      }
      const { append } = waiting
      const [scope, seq, position] = result
      const events =
        append.session === undefined ? [] : committedEvents(append, append.session, { scope, seq, position })
      this.#head = events.at(-1)?.position ?? this.#head
      if (events.length > 0) this.#listeners.tell(events)
      waiting.resolve(events)
    }
  }

  async #letReopen(): Promise<void> {
    try {
      await this.#reader.suspend(new Promise<void>((resolve) => (this.#reopened = resolve)))
      this.#tell({ kind: 'reopen' })
    } catch (error) {
      this.#die(error as Error)
    }
  }

  #setState(state: LogState, reason?: string): void {
    if (state === this.#state) return
    this.#state = state
    if (reason !== undefined) this.#options.onWarning?.(`the event log is ${state}`, { reason })
    for (const waiting of this.#queue.withdraw((append) => this.#isRefused(append))) {
      waiting.reject(new StoreUnavailableError(`the event log is ${state}`))
    }
    this.#stateListeners.tell(state, (error) =>
      this.#options.onWarning?.('a listener of the event log failed', { reason: String(error) })
    )
  }

  /** Nothing more can be acknowledged: every append, waiting or sent, fails. */
  #die(error: Error): void {
    if (this.#trouble === 'fatal' || this.#onClosed !== undefined) return
    this.#trouble = 'fatal'
    this.#reopened?.()
    this.#setState('unavailable', error.message)
    for (const waiting of [...this.#queue.answered(), ...this.#queue.withdraw(() => true)]) {
      waiting.reject(new StoreUnavailableError(error.message))
    }
    this.#jobs.failAll(error)
    this.#options.onFatal?.(error)
  }

  #job(message: (id: number) => ToWriter): Promise<unknown> {
    if (this.#closed !== undefined || this.#trouble === 'fatal') {
      return Promise.reject(new StoreUnavailableError('the event log is closed'))
    }
    return this.#jobs.start((id) => this.#tell(message(id)))
  }
}
