import type { BindingShape } from '../bindings.ts'
import type { RuntimeBudgets } from '../budgets.ts'
import type { Containment, FailureKind } from '../code-runtime.ts'

/** What a world may say, as read from a frame (code-mode.md §8). `exit` and `memory` come from the relay or the thread's host. */
export type WorldFrame =
  | { type: 'ready' }
  | { type: 'started' }
  | { type: 'call'; id: number; global: string; name: string; argument: string }
  | { type: 'log'; text: string }
  | { type: 'raw'; stream: 'stdout' | 'stderr'; text: string }
  | { type: 'done'; value: string | undefined }
  | { type: 'failed'; kind: FailureKind; message: string }
  | { type: 'exit'; code: number }
  | { type: 'memory' }

export type Outcome =
  | { type: 'value'; text: string | undefined }
  | { type: 'failure'; kind: FailureKind; message: string }

/** The result of a run before its value is read: `value` is JSON text. */
export interface SettledRun {
  logs: string[]
  value?: string | undefined
  error?: { kind: FailureKind; message: string }
}

/**
 * One way to start a world's process. With `users`, each world gets a user id of the range that no process has. `input` is what the
 * command reads from descriptor 5, in base64.
 */
export interface Launch {
  readonly containment: Containment
  readonly command: string
  readonly args: readonly string[]
  readonly users: { readonly first: number; readonly count: number } | undefined
  readonly cwd: string
  readonly input?: string
}

/** The worlds of a keeper: threads of the server, or processes started in the first way that works here. */
export type WorldSource = { type: 'thread' } | { type: 'process'; launches: readonly Launch[] }

/** `maxSilenceMs`: how long a keeper that is a process may give no sign while it has something to do; then it is replaced. */
export interface KeeperOptions {
  readonly source: WorldSource
  readonly budgets: RuntimeBudgets
  readonly maxSilenceMs?: number
}

/** What a keeper that is a process is told first. */
export interface ProcessKeeperOptions {
  readonly type: 'options'
  readonly launches: readonly Launch[]
  readonly budgets: RuntimeBudgets
}

export interface RunOrder {
  readonly run: number
  readonly program: string
  readonly bindings: readonly BindingShape[]
  /** Whether log entries are to be told as they come. */
  readonly isLive: boolean
}

export type ToKeeper =
  | ({ type: 'run' } & RunOrder)
  | { type: 'reply'; run: number; id: number; value: string }
  | { type: 'refuse'; run: number; id: number; message: string }
  | { type: 'abort'; run: number; reason: string }
  /** Answered at once, by `pong`: see silence-watch.ts. */
  | { type: 'ping' }
  | { type: 'dispose' }

export type FromKeeper =
  | { type: 'open'; containment: Containment }
  | { type: 'unavailable'; message: string }
  | { type: 'call'; run: number; id: number; global: string; name: string; argument: string }
  | { type: 'logs'; run: number; texts: string[] }
  | { type: 'settled'; run: number; result: SettledRun }
  | { type: 'stuck'; count: number }
  | { type: 'spares'; count: number }
  | { type: 'pong' }
  | { type: 'disposed' }
