import { AbortError } from '../../errors.ts'
import {
  type Collect,
  type ProcessHandle,
  ProcessLostError,
  SpawnError,
  type Subprocesses
} from '../subprocess/subprocess.ts'
import type { Confined } from '../sandbox/sandbox.ts'
import { BackgroundProcess } from './background-process.ts'
import type {
  BackgroundCommand,
  RunOptions,
  SandboxFacts,
  Shell,
  ShellOutput,
  ShellRequest,
  ShellRunResult,
  ShellSpec
} from './shell.ts'

/** Every limit of a shell executor (backends.md §3.1): milliseconds and bytes, all positive and finite. */
export interface ShellLimits {
  /** Deadline of a command that asks for none. */
  timeoutMs: number
  /** Longest deadline that a command may ask for. */
  maxTimeoutMs: number
  /** Kept in memory of each stream. */
  maxOutputBytes: number
  /** Kept in a file of each stream that does not fit. */
  maxSpillBytes: number
  /** From SIGTERM to SIGKILL. */
  graceMs: number
  /**
   * How long a command that ended is waited for when something it left in the background still holds its output (F1). The
   * subprocess rule is `graceMs`, made for ending trees; whoever asked for `server & echo started` wants its answer now.
   */
  drainMs: number
  /** Output a second that is passed on while a command runs. */
  liveBytesPerSecond: number
}

const defaultShellLimits: ShellLimits = {
  timeoutMs: 120_000,
  maxTimeoutMs: 600_000,
  maxOutputBytes: 64_000,
  maxSpillBytes: 64 * 1024 * 1024,
  graceMs: 3_000,
  drainMs: 250,
  liveBytesPerSecond: 64 * 1024
}

/** No pager, no colours: nobody sits in front of it. */
const quietTerminal = { NO_COLOR: '1', TERM: 'dumb', PAGER: 'cat', GIT_PAGER: 'cat' }
/** The kernel's limit for one argument (MAX_ARG_STRLEN, with its final NUL). */
const MAX_ARGUMENT_BYTES = 128 * 1024 - 1
/** What a tree may take beyond its grace until it is really gone. */
const END_SLACK_MS = 2_000

export interface ShellOptions {
  limits?: Partial<ShellLimits>
  /** Where commands run that name no directory; the server's own by default. */
  cwd?: string
  /** What the command line of a command becomes, and what its environment is put over; by default both stay as they are. */
  launch?: (argv: readonly [string, ...string[]], spec: ShellSpec) => Confined
}

/** Runs each command in an interpreter of its own: standard input empty, a session of its own. */
export class CommandShell implements Shell {
  readonly #commandLine: (command: string) => readonly [string, ...string[]]
  readonly #subprocesses: Subprocesses
  readonly #limits: ShellLimits
  readonly #cwd: string
  readonly #launch: NonNullable<ShellOptions['launch']>

  /** `commandLine` is the program, with its arguments, that runs the text of a command. */
  constructor(
    subprocesses: Subprocesses,
    commandLine: (command: string) => readonly [string, ...string[]],
    options: ShellOptions = {}
  ) {
    this.#subprocesses = subprocesses
    this.#commandLine = commandLine
    this.#cwd = options.cwd ?? process.cwd()
    this.#launch = options.launch ?? ((argv) => ({ argv, env: {} }))
    this.#limits = { ...defaultShellLimits, ...options.limits }
    for (const [name, value] of Object.entries(this.#limits)) assertPositive(name, value)
  }

  resolve(request: ShellRequest): ShellSpec {
    const {
      timeoutMs = this.#limits.timeoutMs,
      stdoutMaxBytes = this.#limits.maxOutputBytes,
      workdir = this.#cwd
    } = request
    if (!(Number.isFinite(timeoutMs) && timeoutMs > 0))
      throw new RangeError(`timeoutMs must be more than 0: ${timeoutMs}`)
    assertPositive('stdoutMaxBytes', stdoutMaxBytes)
    return { ...request, workdir, stdoutMaxBytes, timeoutMs: Math.min(timeoutMs, this.#limits.maxTimeoutMs) }
  }

  async run(spec: ShellSpec, { signal, onOutput }: RunOptions): Promise<ShellRunResult> {
    signal.throwIfAborted()
    const handle = this.#spawn(spec, onOutput)
    // One cause only: whichever comes first ends the command and is the one that is told.
    let cause: 'timeout' | 'abort' | undefined
    const end = (because: 'timeout' | 'abort') => {
      cause ??= because
      handle.terminate()
    }
    const onAbort = () => end('abort')
    signal.addEventListener('abort', onAbort, { once: true })
    let timer: NodeJS.Timeout | undefined
    try {
      // From now on: whatever keeps it from being started must not keep the caller.
      timer = setTimeout(() => end('timeout'), spec.timeoutMs)
      const { exitCode, signal: killedBy } = await handle.done
      clearTimeout(timer)
      const [stdout, stderr] = await Promise.all([wholeOutput(handle, 'stdout'), wholeOutput(handle, 'stderr')])
      // A command that was ended is told when nothing of it runs any more.
      if (cause !== undefined) await handle.waitForExit(AbortSignal.timeout(this.#limits.graceMs + END_SLACK_MS))
      const [timedOut, aborted] = [cause === 'timeout', cause === 'abort']
      return { exitCode, signal: killedBy, timedOut, aborted, timeoutMs: spec.timeoutMs, stdout, stderr }
    } catch (error) {
      // It was to be ended, and so it was.
      throw cause === 'abort' && error instanceof ProcessLostError ? new AbortError() : error
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
    }
  }

  /** `judge`: see BackgroundProcess. */
  start(spec: ShellSpec, judge?: (handle: ProcessHandle) => Promise<SandboxFacts>): BackgroundCommand {
    return new BackgroundProcess(() => this.#spawn(spec), this.#limits.graceMs + END_SLACK_MS, judge)
  }

  #spawn(spec: ShellSpec, onOutput?: (text: string) => void): ProcessHandle {
    const argv = this.#commandLine(spec.command)
    const commandBytes = Math.max(...argv.map((argument) => Buffer.byteLength(argument)))
    if (commandBytes > MAX_ARGUMENT_BYTES) {
      throw new SpawnError(`the command has ${commandBytes} bytes, and the system takes at most ${MAX_ARGUMENT_BYTES}`)
    }
    const { maxOutputBytes, maxSpillBytes, graceMs, drainMs, liveBytesPerSecond } = this.#limits
    const directory = spec.spillDirectory === undefined ? {} : { directory: spec.spillDirectory }
    const collect = (maxBytes: number): Collect => ({ maxBytes, spill: { maxBytes: maxSpillBytes, ...directory } })
    const launched = this.#launch(argv, spec)
    return this.#subprocesses.spawn({
      argv: launched.argv,
      cwd: spec.workdir,
      stdin: 'ignore',
      stdout: collect(spec.stdoutMaxBytes),
      stderr: collect(maxOutputBytes),
      graceMs,
      drainMs,
      // What is confined has a PID namespace, which the kernel ends as a whole.
      marksLimits: launched.argv === argv,
      env: { ...launched.env, ...quietTerminal, ...spec.env, ...spec.managedEnv },
      ...(onOutput === undefined ? {} : { live: { bytesPerSecond: liveBytesPerSecond, onText: onOutput } })
    })
  }
}

async function wholeOutput(handle: ProcessHandle, stream: 'stdout' | 'stderr'): Promise<ShellOutput> {
  const { text, lossy, spillPath } = await handle.collected[stream]!.readFrom(0)
  return { text, truncated: lossy, ...(spillPath === undefined ? {} : { spillPath }) }
}

/** Timers take no more than 2³¹ − 1 ms, and bytes come whole. */
function assertPositive(name: string, value: number): void {
  const isUsable = name.endsWith('Bytes') ? Number.isSafeInteger(value) : value <= 2_147_483_647
  if (!(value > 0 && isUsable)) throw new RangeError(`${name} is not usable: ${value}`)
}
