import { setMaxListeners } from 'node:events'
import { LosslessJsonError, snapshot, type JsonValue } from '../json/lossless.ts'
import { stringifyJson } from '../json/serialize.ts'
import { type BindingShape, shapesOf } from './bindings.ts'
import type { RuntimeBudgets } from './budgets.ts'
import type {
  CodeRuntime,
  Containment,
  FailureKind,
  Isolation,
  ProgramLanguage,
  RunRequest,
  RunResult,
  RuntimeLoad
} from './code-runtime.ts'
import { Keeper, type KeptRun } from './keeper/keeper.ts'
import type { SettledRun, WorldSource } from './keeper/messages.ts'
import { OutputLedger } from './output-ledger.js'
import { RunSlots } from './run-slots.ts'
import { RuntimeDisposedError, RuntimeOverloadedError } from './runtime-errors.ts'
import type { Stripped } from './strip-types.ts'

/** Worlds that would not end hold a thread or a process each; with more of them no further program is taken (code-mode.md §14.4). */
const maxStuck = 3

/** The stripper would silently replace it (code-mode.md §7.1). */
const loneSurrogate = /\p{Surrogate}/u

/** Budgets, and who hears of it when another number of worlds do not end although they were told to (code-mode.md §14.4). */
export interface RuntimeOptions extends Partial<RuntimeBudgets> {
  readonly onStuck?: ((count: number) => void) | undefined
}

/** What makes a backend of its own out of what all of them share. `prepare` turns a program's text into what its world runs. */
export interface Backend {
  readonly language: ProgramLanguage
  readonly isolation: Isolation
  readonly source: WorldSource
  readonly prepare: (program: string) => Promise<Stripped>
  readonly close: () => Promise<void>
  readonly onStuck?: ((count: number) => void) | undefined
}

/** The seam's implementation for all backends: they differ in the worlds of their keeper and in how a program is prepared. */
export class ProgramRuntime implements CodeRuntime {
  readonly #backend: Backend
  readonly #budgets: RuntimeBudgets
  readonly #keeper: Keeper
  readonly #slots: RunSlots
  readonly #closing = new AbortController()
  readonly #runs = new Set<Promise<RunResult>>()

  private constructor(backend: Backend, budgets: RuntimeBudgets, keeper: Keeper) {
    this.#backend = backend
    this.#budgets = budgets
    this.#keeper = keeper
    // One for each run, and there may be many.
    setMaxListeners(0, this.#closing.signal)
    this.#slots = new RunSlots(budgets.maxConcurrentRuns, budgets.maxQueuedRuns)
  }

  /** Rejects with `RuntimeUnavailableError` when no world starts. */
  static async open(backend: Backend, budgets: RuntimeBudgets): Promise<ProgramRuntime> {
    try {
      return new ProgramRuntime(
        backend,
        budgets,
        await Keeper.open({ source: backend.source, budgets }, backend.onStuck)
      )
    } catch (error) {
      await backend.close()
      throw error
    }
  }

  get language(): ProgramLanguage {
    return this.#backend.language
  }

  get isolation(): Isolation {
    return this.#backend.isolation
  }

  get containment(): Containment {
    return this.#keeper.containment
  }

  load(): RuntimeLoad {
    const { spares, stuck } = this.#keeper
    return { running: this.#slots.running, queued: this.#slots.queued, spares, stuck }
  }

  async run(request: RunRequest): Promise<RunResult> {
    if (this.#closing.signal.aborted) throw new RuntimeDisposedError()
    const run = this.#admit(request)
    this.#runs.add(run)
    try {
      return await run
    } finally {
      this.#runs.delete(run)
    }
  }

  async dispose(): Promise<void> {
    this.#closing.abort('The code runtime is being disposed.')
    await Promise.all([this.#keeper.dispose(), this.#backend.close(), Promise.allSettled(this.#runs)])
  }

  async #admit(request: RunRequest): Promise<RunResult> {
    const bindings = shapesOf(request.bindings)
    const { maxProgramBytes } = this.#budgets
    if (loneSurrogate.test(request.program)) {
      return this.#failure('exception', 'SyntaxError: the program holds a surrogate without its other half.')
    }
    if (Buffer.byteLength(request.program) > maxProgramBytes) {
      return this.#failure('exception', `The program is larger than maxProgramBytes (${maxProgramBytes} bytes).`)
    }
    if (this.#keeper.stuck > maxStuck) {
      throw new RuntimeOverloadedError(`No more programs can be taken: ${this.#keeper.stuck} worlds would not end.`)
    }
    const { signal, release } = follow(request.signal, this.#closing.signal)
    try {
      return await this.#runIn(request, bindings, signal)
    } finally {
      release()
    }
  }

  async #runIn(request: RunRequest, bindings: BindingShape[], signal: AbortSignal): Promise<RunResult> {
    if (!(await this.#slots.acquire(signal))) return this.#aborted(signal)
    try {
      const prepared = await this.#prepare(request.program, signal)
      if (signal.aborted) return this.#aborted(signal)
      if ('refusal' in prepared) return this.#failure('exception', prepared.refusal)
      return read(await this.#runPrepared(prepared.code, bindings, request, signal))
    } finally {
      this.#slots.release()
    }
  }

  /** An abort does not wait for the stripper. */
  async #prepare(program: string, signal: AbortSignal): Promise<Stripped> {
    return new Promise((resolve, reject) => {
      const leave = () => resolve({ refusal: '' })
      signal.addEventListener('abort', leave, { once: true })
      this.#backend
        .prepare(program)
        .then(resolve, reject)
        .finally(() => signal.removeEventListener('abort', leave))
    })
  }

  async #runPrepared(
    program: string,
    bindings: BindingShape[],
    request: RunRequest,
    signal: AbortSignal
  ): Promise<SettledRun> {
    return new Promise((resolve) => {
      const abort = () => kept.abort(reasonOf(signal))
      const kept = this.#keeper.start(
        { program, bindings, isLive: request.onLog !== undefined },
        {
          call: ({ id, global, name, argument }) => {
            if (!signal.aborted) void answer(kept, id, request, global, name, argument)
          },
          logs: (texts) => tellLogs(request, texts),
          settled: (result) => {
            signal.removeEventListener('abort', abort)
            resolve(result)
          }
        }
      )
      signal.addEventListener('abort', abort, { once: true })
    })
  }

  #aborted(signal: AbortSignal): RunResult {
    return this.#failure('abort', reasonOf(signal))
  }

  /** A failure before there was a world obeys the output limit like any other (code-mode.md §10). */
  #failure(kind: FailureKind, message: string): RunResult {
    return read(new OutputLedger(this.#budgets.maxOutputBytes).settle({ type: 'failure', kind, message }))
  }
}

/** The keeper has checked the value's text. */
function read({ logs, value, error }: SettledRun): RunResult {
  if (error !== undefined) return { logs, error }
  return value === undefined ? { logs } : { logs, value: JSON.parse(value) as JsonValue }
}

async function answer(
  kept: KeptRun,
  id: number,
  request: RunRequest,
  global: string,
  name: string,
  text: string
): Promise<void> {
  try {
    // The keeper has looked both up among the own names of the bindings, and has read the argument.
    const call = request.bindings.find((binding) => binding.global === global)!.functions[name]!
    const result = await call(JSON.parse(text) as JsonValue)
    for (let room = kept.room(); room !== undefined; room = kept.room()) await room
    kept.reply(id, stringifyJson(snapshot(result)))
  } catch (error) {
    kept.refuse(id, error instanceof LosslessJsonError ? `The result is ${lossyText(error)}` : messageOf(error))
  }
}

/** One signal for several. `AbortSignal.any` would keep something of every run with the signal that lives as long as the runtime. */
function follow(...sources: (AbortSignal | undefined)[]): { signal: AbortSignal; release: () => void } {
  const controller = new AbortController()
  const undo = sources.map((source) => {
    const forward = () => controller.abort(source?.reason)
    if (source?.aborted) forward()
    else source?.addEventListener('abort', forward)
    return () => source?.removeEventListener('abort', forward)
  })
  return { signal: controller.signal, release: () => undo.forEach((each) => each()) }
}

const lossyText = ({ path, reason }: LosslessJsonError) => `not lossless JSON: ${path}: ${reason}`

function tellLogs({ onLog }: RunRequest, texts: readonly string[]): void {
  for (const text of texts) {
    try {
      onLog?.(text)
    } catch {
      // A listener's fault is no fault of the program.
    }
  }
}

/** The message of whatever a binding threw; rendering it may throw again. */
function messageOf(error: unknown): string {
  try {
    // A message need not be a string, whatever its type says.
    const message: unknown = error instanceof Error ? error.message : error
    return String(message)
  } catch {
    return 'The call failed.'
  }
}

function reasonOf(signal: AbortSignal): string {
  try {
    return String(signal.reason)
  } catch {
    return 'aborted'
  }
}
