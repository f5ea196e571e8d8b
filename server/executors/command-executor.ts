import { once } from 'node:events'
import {
  type ExitFacts,
  type ProcessHandle,
  ProcessLostError,
  type Subprocesses
} from '../backends/subprocess/subprocess.ts'
import { AbortError, CodedError, RequestError } from '../errors.ts'
import type { JsonObject } from '../json/lossless.ts'
import { stringifyJson } from '../json/serialize.ts'
import { readCommandOutput } from './command-output.ts'
import type { Executor, WireAnswer, WireCall } from './executor.ts'

/** Settings of `tools.command`, in bytes and milliseconds. */
export interface CommandLimits {
  /** Standard output of one call; beyond it the call fails. */
  readonly maxOutputBytes: number
  /** From SIGTERM to SIGKILL. */
  readonly graceMs: number
  /** Standard error a second that is sent to those who watch. */
  readonly liveBytesPerSecond: number
}

export interface CommandOptions {
  /** Program and arguments, as `commandLine` gave them. */
  argv: readonly [string, ...string[]]
  subprocesses: Subprocesses
  limits: CommandLimits
  /** Where the command runs for a session, by its id. */
  cwdOf: (session: string | undefined) => Promise<string>
  /** Hears of what a command wrote to standard error, the last of it. */
  onStderr: (text: string, call: WireCall) => void
}

/** What is kept of standard error. */
const stderrBytes = 16 * 1024
/** What of it the model is told when the command failed. */
const toldCharacters = 2_000
/** How long something that the command left behind may hold its output once the command has ended. */
const drainMs = 250
/** What a tree may take beyond its grace until it is really gone. */
const endSlackMs = 2_000
const maxArguments = 256
const maxCommandBytes = 32 * 1024

/**
 * A command came to nothing: `COMMAND_NOT_STARTED` with `effect: 'none'`, `COMMAND_FAILED` for an exit that is not 0 or by a signal,
 * `COMMAND_OUTPUT_TOO_LARGE` for one that was ended for it.
 */
export class CommandError extends CodedError {
  declare readonly code: 'COMMAND_NOT_STARTED' | 'COMMAND_FAILED' | 'COMMAND_OUTPUT_TOO_LARGE'
  readonly effect?: 'none'

  constructor(code: CommandError['code'], message: string, options?: ErrorOptions) {
    super(code, message, options)
    if (code === 'COMMAND_NOT_STARTED') this.effect = 'none'
  }
}

/**
 * Runs a tool as a command (api.md §3): no shell, the arguments as JSON on standard input, one JSON value on standard output. Whatever
 * ends the call ends all that the command started.
 */
export class CommandExecutor implements Executor {
  readonly kind = 'command'
  readonly #options: CommandOptions

  constructor(options: CommandOptions) {
    this.#options = options
  }

  /** The program alone: arguments may hold secrets. */
  describe(): JsonObject {
    return { program: this.#options.argv[0] }
  }

  async run(call: WireCall): Promise<WireAnswer> {
    const { limits, onStderr } = this.#options
    const handle = await this.#start(call)
    const output = new Output(handle, limits.maxOutputBytes)
    try {
      const exit = await exitOf(handle)
      // What a command leaves behind belongs to nobody, and might hold its output for ever.
      handle.terminate()
      const stderr = (await handle.collected.stderr?.readFrom(0))?.text ?? ''
      if (stderr !== '') onStderr(stderr, call)
      if (call.signal.aborted) {
        await handle.waitForExit(AbortSignal.timeout(limits.graceMs + endSlackMs))
        throw new AbortError()
      }
      const bytes = await output.whole(limits.graceMs + endSlackMs)
      if (bytes === undefined) {
        throw new CommandError('COMMAND_OUTPUT_TOO_LARGE', `the command wrote more than ${limits.maxOutputBytes} bytes`)
      }
      if (exit.exitCode !== 0) throw new CommandError('COMMAND_FAILED', failureText(exit, stderr))
      return { value: readCommandOutput(bytes) }
    } finally {
      handle.stdout?.destroy()
    }
  }

  async #start({ callId, name, scope, session, signal, progress, ...call }: WireCall): Promise<ProcessHandle> {
    const { argv, subprocesses, limits, cwdOf } = this.#options
    const [command, ...rest] = argv
    const environment = {
      TOOLWRIGHT_SHELL: '1',
      TOOLWRIGHT_CALL_ID: callId,
      TOOLWRIGHT_TOOL: name,
      TOOLWRIGHT_SCOPE: scope,
      TOOLWRIGHT_SESSION_ID: session
    }
    try {
      const program = await subprocesses.resolveExecutable(command, {}, signal)
      const cwd = await cwdOf(session)
      signal.throwIfAborted()
      const handle = subprocesses.spawn({
        argv: [program, ...rest],
        cwd,
        stdin: { data: `${stringifyJson(call.arguments)}\n` },
        stdout: 'pipe',
        stderr: { maxBytes: stderrBytes },
        graceMs: limits.graceMs,
        drainMs,
        env: environment,
        signal,
        live: { bytesPerSecond: limits.liveBytesPerSecond, onText: progress }
      })
      if ((await handle.started) === -1) await handle.done
      return handle
    } catch (error) {
      const wasLost = error instanceof ProcessLostError
      if (signal.aborted) throw new AbortError(wasLost ? {} : { effect: 'none' })
      if (wasLost) throw commandFailed(error)
      throw new CommandError('COMMAND_NOT_STARTED', (error as Error).message, { cause: error })
    }
  }
}

/**
 * The command line of a tool's settings, `{ argv: [program, …] }`. Throws `INVALID_DEFINITION` for anything that no process can be started
 * with; the program is an absolute path, or a bare name that is looked for on the server's PATH at each call.
 */
export function commandLine(given: JsonObject): readonly [string, ...string[]] {
  const { argv } = given
  if (!Array.isArray(argv) || argv.length === 0 || !argv.every((part) => typeof part === 'string')) {
    throw refused('must be a list of texts, the program first')
  }
  const [program, ...rest] = argv as [string, ...string[]]
  if (!/^(\/[^\0]*|[^/\0]+)$/.test(program)) throw refused('must begin with an absolute path or a bare name')
  if (rest.some((part) => part.includes('\0'))) throw refused('may hold no NUL')
  const bytes = argv.reduce((sum, part) => sum + Buffer.byteLength(part) + 1, 0)
  if (argv.length > maxArguments || bytes > maxCommandBytes) {
    throw refused(`may have ${maxArguments} parts and ${maxCommandBytes} bytes at most`)
  }
  return [program, ...rest]
}

const refused = (text: string): RequestError => new RequestError('INVALID_DEFINITION', `"executor.argv" ${text}.`)

/** Standard output as it comes; beyond `maxBytes` the command is ended. */
class Output {
  readonly #chunks: Buffer[] = []
  readonly #ended: Promise<unknown>
  #isTooLarge = false

  constructor(handle: ProcessHandle, maxBytes: number) {
    const stdout = handle.stdout!
    let total = 0
    stdout.on('data', (chunk: Buffer) => {
      total += chunk.length
      if (total <= maxBytes) return this.#chunks.push(chunk)
      this.#isTooLarge = true
      this.#chunks.length = 0
      return handle.terminate()
    })
    this.#ended = once(stdout, 'close')
  }

  /** All of it, or what came in this time where something beyond reach holds it; undefined when it is too large. */
  async whole(maxWaitMs: number): Promise<Buffer | undefined> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise((resolve) => (timer = setTimeout(resolve, maxWaitMs)))
    await Promise.race([this.#ended, late])
    clearTimeout(timer)
    return this.#isTooLarge ? undefined : Buffer.concat(this.#chunks)
  }
}

/** The process that owns the others may be lost, and this one with it. */
async function exitOf(handle: ProcessHandle): Promise<ExitFacts> {
  try {
    return await handle.done
  } catch (error) {
    throw commandFailed(error)
  }
}

const commandFailed = (error: unknown): CommandError =>
  new CommandError('COMMAND_FAILED', (error as Error).message, { cause: error })

function failureText({ exitCode, signal }: ExitFacts, stderr: string): string {
  const how = exitCode === null ? `was ended by ${signal}` : `exited with code ${exitCode}`
  const tail = stderr.trim()
  const told = tail.length > toldCharacters ? `…${tail.slice(-toldCharacters)}` : tail
  return told === '' ? `the command ${how}` : `the command ${how}: ${told}`
}
