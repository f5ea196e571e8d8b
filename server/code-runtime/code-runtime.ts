import type { JsonValue } from '../json/lossless.ts'

/** The language that programs of a runtime are written in: a descriptor, not a gate (code-mode.md §5). */
export type ProgramLanguage = 'typescript' | 'python'

/** Where programs of a runtime run: a label, not a security claim (code-mode.md §5). */
export type Isolation = 'worker-thread' | 'process' | 'container'

/** How a run fails (code-mode.md §12); exactly one kind wins, the first to settle. */
export type FailureKind = 'exception' | 'timeout' | 'abort' | 'worker-exit' | 'invalid-output' | 'output-limit'

/**
 * One function that a program may call. It is given the call's argument, lossless JSON of its own, and is called in the order in
 * which the program calls. What it resolves to must be lossless JSON; a rejection, and a lossy value, reach the program as a failed
 * call that carries the error's message and nothing else.
 */
export type BoundFunction = (argument: JsonValue) => Promise<unknown>

/**
 * One namespace object of a program. `functions` may have any names, and only its own enumerable ones count. Failed calls are
 * instances of the class `errorClass.name`, which hold the function's name in `memberNameProperty`.
 */
export interface Binding {
  readonly global: string
  readonly functions: Readonly<Record<string, BoundFunction>>
  readonly errorClass?: { readonly name: string; readonly memberNameProperty: string }
}

/**
 * One program to run. `onLog` is told each log entry as it crosses the boundary, in order, and at most what the output limit
 * admits; the result holds them all again. A throw of `onLog` is ignored.
 */
export interface RunRequest {
  readonly program: string
  readonly bindings: readonly Binding[]
  readonly signal?: AbortSignal | undefined
  readonly onLog?: ((text: string) => void) | undefined
}

/** What became of a program. `value` is absent if it returned `undefined` or failed; `error` is present if it failed. */
export interface RunResult {
  readonly value?: JsonValue
  readonly logs: string[]
  readonly error?: { readonly kind: FailureKind; readonly message: string }
}

/**
 * What keeps programs apart from the server (code-mode.md §15.2). `pidNamespace`: a program sees, and can signal, no process
 * but its own. `ownUser`: it runs under a user id of its own. `limits`: the kernel bounds its open files, file sizes and processes.
 * Where all are false, a program may do whatever the server's user may.
 */
export interface Containment {
  readonly pidNamespace: boolean
  readonly ownUser: boolean
  readonly limits: boolean
}

/** Numbers at this moment: `spares` are ready for the next runs, `stuck` worlds did not end when told to (code-mode.md §14.4). */
export interface RuntimeLoad {
  readonly running: number
  readonly queued: number
  readonly spares: number
  readonly stuck: number
}

/**
 * Runs programs that call named async functions, and knows nothing of what these do (code-mode.md §5). Every outcome of a program
 * resolves. `run` rejects only for misuse (`TypeError` for bindings, `RuntimeDisposedError`) and when the runtime is at its limit
 * (`RuntimeOverloadedError`, code `OVERLOADED`).
 */
export interface CodeRuntime {
  readonly language: ProgramLanguage
  readonly isolation: Isolation
  readonly containment: Containment
  run(request: RunRequest): Promise<RunResult>
  load(): RuntimeLoad
  /** Refuses new runs, ends the present ones as `abort`, and resolves once every world has ended, within the grace (§14.6). */
  dispose(): Promise<void>
}
