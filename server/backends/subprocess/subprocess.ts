import type { Readable, Writable } from 'node:stream'
import { CodedError } from '../../errors.ts'

/** Keep the last `maxBytes` bytes; with `spill`, the whole stream goes to a private file from the first overflow on. */
export interface Collect {
  /** Bytes kept in memory: positive and whole. */
  maxBytes: number
  spill?: {
    /** Beyond this many bytes of the stream the file is deleted and no path is reported. */
    maxBytes: number
    /** Where the file goes (made 0700 when missing); by default a private directory that lives as long as the service. */
    directory?: string
  }
}

/** `pipe` hands the raw stream to the caller, `inherit` shares the server's own (backends.md §2). */
export type OutputMode = 'pipe' | 'inherit' | Collect

/** What to run. Every limit comes with the request; the service has none of its own (backends.md §2). */
export interface SpawnSpec {
  /** Program and arguments, never parsed by a shell. */
  argv: readonly [string, ...string[]]
  cwd: string
  /** `ignore` is /dev/null; `data` is written and closed. */
  stdin: 'ignore' | 'pipe' | { data: string | Uint8Array }
  stdout: OutputMode
  stderr: OutputMode
  /** Milliseconds from SIGTERM to SIGKILL: positive, at most 2 147 483 647. */
  graceMs: number
  /**
   * Milliseconds that `done` waits, after the leader's exit, for a descendant that still holds an output pipe; `graceMs` when
   * absent. The descendant is left alone.
   */
  drainMs?: number
  /** Aborting terminates the tree; already aborted, `spawn` throws. */
  signal?: AbortSignal
  /**
   * Marks the tree by a resource limit too, so that what drops its environment and its session is ended all the same (reliability.md §3.5):
   * for programs that may leave things behind, as it may cost one exec more (marked-command.js). Where it cannot be done it is left out.
   */
  marksLimits?: boolean
  /** Put over the scrubbed environment of the server; `undefined` removes a name. */
  env?: Readonly<Record<string, string | undefined>>
  /**
   * Collected output as it comes, both streams in one, for people to watch: text that never breaks a character, at most
   * `bytesPerSecond`; what is left out is said in the text.
   */
  live?: { bytesPerSecond: number; onText: (text: string) => void }
}

/** How the leader ended: exactly one of the two is set. */
export interface ExitFacts {
  exitCode: number | null
  signal: NodeJS.Signals | null
}

/** A piece of a collected stream. Offsets count the bytes of the whole stream. */
export interface OutputWindow {
  text: string
  nextOffset: number
  /** Bytes from the asked offset on have slid out of memory: `text` is all that is left. */
  lossy: boolean
  /** The file with every byte so far, if there is an intact one. */
  spillPath?: string
}

/** A bounded piece of a collected stream; offsets as those of `OutputWindow`. */
export interface OutputPiece {
  text: string
  /** Where `text` begins. */
  from: number
  nextOffset: number
  /** Bytes from the asked offset on have slid out of memory. */
  lossy: boolean
}

export interface CollectedOutput {
  /** Non-consuming, at any time, also after the exit. An offset beyond the end reads nothing. */
  readFrom(byteOffset: number): Promise<OutputWindow>
  /** The same, at most `maxBytes` of it, but one whole character at least. An offset beyond the end means the end. */
  readPiece(byteOffset: number, maxBytes: number): Promise<OutputPiece>
}

/** One process tree. It stays live until the whole tree is gone, not only its leader (backends.md §2). */
export interface ProcessHandle {
  /** The leader's pid; −1 until it runs, and for good if it could not be started. */
  readonly pid: number
  /** Settles when the leader runs (its pid) or could not be started (−1); never rejects. */
  readonly started: Promise<number>
  /**
   * The leader's facts, once it ended and its output is complete. Rejects with SpawnError when nothing was started, with
   * ProcessLostError when nobody knows.
   */
  readonly done: Promise<ExitFacts>
  /** Present for a collected stream. */
  readonly collected: { readonly stdout?: CollectedOutput; readonly stderr?: CollectedOutput }
  /** Present for `pipe`. */
  readonly stdin?: Writable
  readonly stdout?: Readable
  readonly stderr?: Readable
  /** SIGTERM to the tree, SIGKILL after `graceMs`. Calling it again changes nothing; after the tree is gone, nothing happens. */
  terminate(): void
  /** True when the whole tree is gone; false when `bound` is aborted first. */
  waitForExit(bound?: AbortSignal): Promise<boolean>
}

/** Starts and ends process trees (backends.md §2). */
export interface Subprocesses {
  /** Returns at once. Throws for a bad request or a signal that is already aborted; nothing is started then. */
  spawn(spec: SpawnSpec): ProcessHandle
  /** Starts what the first process would otherwise wait for. */
  prepare(): void
  /** The absolute path of a program: an absolute one as it is, a bare name by the scrubbed PATH. Rejects with SpawnError. */
  resolveExecutable(
    command: string,
    env?: Readonly<Record<string, string | undefined>>,
    signal?: AbortSignal
  ): Promise<string>
  /** Terminates every live tree, then waits for all of them to be gone. Rejects if one could not be ended. */
  dispose(): Promise<void>
}

/** The program could not be started: no such program, no such directory, not permitted. */
export class SpawnError extends CodedError {
  constructor(message: string, options?: ErrorOptions) {
    super('SPAWN_FAILED', message, options)
  }
}

/**
 * The process that owns the others ended, or was stuck and is replaced: whether the program was started is not known, and nothing of it
 * runs any more.
 */
export class ProcessLostError extends SpawnError {
  constructor(cause: Error) {
    super(`the process that owns the others failed: ${cause.message}`, { cause })
  }
}

declare module '../../services.ts' {
  interface Services {
    subprocesses: Subprocesses
  }
}
