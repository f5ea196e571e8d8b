import type { Collect } from './subprocess.ts'

export type StreamName = 'stdout' | 'stderr'

/** What the server asks of the process that owns the others (tree-host.js). */
export type ToHost =
  | { type: 'spawn'; spec: HostSpec }
  | { type: 'terminate'; id: number }
  | { type: 'read'; id: number; request: number; stream: StreamName; offset: number }
  /** `null` closes the stream. */
  | { type: 'stdin'; id: number; data: Uint8Array | null }
  /** So many bytes of a piped stream were taken by its reader. */
  | { type: 'taken'; id: number; stream: StreamName; bytes: number }
  /** Answered at once, by `pong`: see silence-watch.ts. */
  | { type: 'ping' }

/** A SpawnSpec as data, with the whole environment. */
export interface HostSpec {
  id: number
  argv: readonly [string, ...string[]]
  cwd: string
  env: Record<string, string>
  /** The value of TOOLWRIGHT_TREE in `env`: see tree-mark.js. */
  marker: string
  /** Whether `marker` is to be a limit too: see marked-command.js. */
  marksLimits: boolean
  stdin: 'ignore' | 'pipe' | { data: string | Uint8Array }
  stdout: HostOutput
  stderr: HostOutput
  graceMs: number
  drainMs: number
  /** Bytes a second of live text; 0 for none. */
  liveBytesPerSecond: number
}

export type HostOutput = 'pipe' | 'inherit' | (Collect & { spill?: { maxBytes: number; directory: string } })

/** What a collector holds: the last bytes of a stream of `total` bytes. */
export interface Tail {
  bytes: Uint8Array
  total: number
  spillPath?: string
}

export type FromHost =
  | { type: 'started'; id: number; pid: number; start: string }
  | { type: 'failed'; id: number; message: string }
  | { type: 'settled'; id: number; exitCode: number | null; signal: NodeJS.Signals | null; tails: TailMap }
  | { type: 'gone'; id: number }
  /** Gone, and all its output was taken: nothing more will be said of it. */
  | { type: 'closed'; id: number }
  | { type: 'window'; request: number; tail: Tail | undefined }
  | { type: 'live'; id: number; text: string }
  | { type: 'chunk'; id: number; stream: StreamName; data: Uint8Array }
  | { type: 'end'; id: number; stream: StreamName }
  | { type: 'stdin-taken'; id: number; error?: string }
  | { type: 'pong' }

export type TailMap = { stdout?: Tail; stderr?: Tail }

/** One row of the process table (process-table.js). `start` is the kernel's start time: with the pid it names a process for good. */
export interface ProcessRow {
  pid: number
  parent: number
  group: number
  session: number
  start: string
  /** Ended, and only waiting to be collected by its parent. */
  zombie: boolean
  /** Of its environment and of its limits. */
  markers: readonly string[]
}

/** What identifies a tree in the process table. */
export interface TreeIdentity {
  pid: number
  start: string
  marker: string
}
