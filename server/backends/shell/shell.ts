import type { SandboxMode, SandboxPolicy } from '../sandbox/sandbox.ts'
import type { OutputPiece } from '../subprocess/subprocess.ts'

/** One command for a shell. Absent members are filled in by `resolve`. */
export interface ShellRequest {
  command: string
  /** Absolute. */
  workdir?: string
  /** Milliseconds; larger than the executor's cap means the cap. */
  timeoutMs?: number
  /** Bytes of each stream that are kept in memory. */
  stdoutMaxBytes?: number
  /** Trusted variables of the caller, put over the scrubbed environment. */
  env?: Readonly<Record<string, string>>
  /** `TOOLWRIGHT_*` variables, put over all others. */
  managedEnv?: Readonly<Record<string, string>>
  /** Where full outputs that do not fit are kept; by default they live as long as the server. */
  spillDirectory?: string
  /** What it may write. An executor that confines runs nothing without one; for one that does not it means nothing. */
  policy?: SandboxPolicy
}

/** A request with everything decided; `run` and `start` add no default of their own (backends.md §3.1). */
export interface ShellSpec extends ShellRequest {
  workdir: string
  timeoutMs: number
  stdoutMaxBytes: number
}

export interface ShellOutput {
  /** The last bytes of the stream. */
  text: string
  truncated: boolean
  /** The file that has the whole stream, when it did not fit and the file is intact. */
  spillPath?: string
}

/** What is known of the sandbox that a command ran in (backends.md §3.1, §11.2). */
export interface SandboxFacts {
  mode: SandboxMode
  /** It failed because a file was closed to it. */
  denied: boolean
  /** Absent where nothing was confined. */
  enforcement?: 'full' | 'partial'
  /** The sandbox failed, so the command may not have run. Only of commands in the background: the others reject. */
  runnerFailed?: boolean
}

/** How a command ended. `timedOut` and `aborted` say what ended it first, never both (backends.md §3.1). */
export interface ShellRunResult {
  exitCode: number | null
  signal: string | null
  timedOut: boolean
  aborted: boolean
  timeoutMs: number
  stdout: ShellOutput
  stderr: ShellOutput
  /** Present where the executor confines. */
  sandbox?: SandboxFacts
}

export interface RunOptions {
  signal: AbortSignal
  /** Output as it comes, bounded in size: see `SpawnSpec.live`. */
  onOutput?: (text: string) => void
}

/** Output since the last read, both streams merged (backends.md §3.1). */
export interface OutputDelta {
  text: string
  /** Some of it slid out of memory before this read. */
  lossy: boolean
  /** The files with the whole streams, where intact ones exist. */
  spillPaths: string[]
}

/** A command in the background. It has no timeout and belongs to the subprocess service (backends.md §3.1). */
export interface BackgroundCommand {
  readonly status: 'running' | 'completed' | 'killed'
  readonly exitCode: number | null
  readonly signal: string | null
  /** Settles with the command; never rejects: what could not be started settles as `killed`. */
  readonly done: Promise<void>
  /** Known once it is done, where the executor confines. */
  readonly sandbox?: SandboxFacts
  /** Consuming. */
  readOutput(): Promise<OutputDelta>
  /** A bounded piece of one stream; not consuming. */
  readPiece(stream: 'stdout' | 'stderr', byteOffset: number, maxBytes: number): Promise<OutputPiece>
  /** True for the call that ends it; false once it is settled or being ended. */
  kill(): boolean
  /** Ends what it left running when it ended, and waits for that. */
  endLeftovers(): Promise<void>
}

/** Runs commands in a fresh shell each (backends.md §3.1); it rejects with SandboxError when it confines and cannot. */
export interface Shell {
  /** Throws for a timeout or size that is not a positive finite number. */
  resolve(request: ShellRequest): ShellSpec
  /** Resolves for every exit, timeout and abort; rejects only when nothing could be run. */
  run(spec: ShellSpec, options: RunOptions): Promise<ShellRunResult>
  start(spec: ShellSpec): BackgroundCommand
}

declare module '../../services.ts' {
  interface Services {
    shell: Shell
  }
}
