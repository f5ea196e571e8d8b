import { fileURLToPath } from 'node:url'
import { SilenceWatch } from '../../processes/silence-watch.ts'
import type { ProcessHandle, Subprocesses } from '../subprocess/subprocess.ts'
import { FrameReader, frameOf } from './host/frames.js'
import type { FromHost, HostCalls, HostMethod } from './messages.ts'
import { TerminalError } from './terminals.ts'

/** The last words of a host that died. */
const MAX_STDERR_BYTES = 4_096
/** From SIGTERM to SIGKILL, of the host and of what is left of its terminals; and what all of that may take to be gone. */
const GRACE_MS = 500
const GONE_MS = 5_000

/** What is told of one terminal without being asked. */
export interface HostListener {
  onOutput(text: string, offset: number): void
  onExit(exitCode: number | null, signal: string | null): void
  /** The host died, and the terminal with it. */
  onLost(error: TerminalError): void
}

export interface PtyHostOptions {
  /** How long the host may say nothing while it is asked something; then it is ended, and the next terminal has a new one. */
  maxSilenceMs: number
  /** Hears when a host was lost. */
  warn: (message: string, details: object) => void
}

interface PendingCall {
  resolve(value: never): void
  reject(error: Error): void
}

/**
 * The server's side of the process that holds the terminals (host/host-process.js). It is started with the first terminal, and
 * again after it died.
 */
export class PtyHost {
  readonly #subprocesses: Subprocesses
  readonly #options: PtyHostOptions
  #connection: Connection | undefined
  #isDisposed = false

  constructor(subprocesses: Subprocesses, options: PtyHostOptions) {
    this.#subprocesses = subprocesses
    this.#options = options
  }

  /** The running host, started if need be: a terminal belongs to the one that it was opened in. */
  connect(): Connection {
    if (this.#isDisposed) throw new TerminalError('SERVICE_DISPOSING', 'the server is stopping: no terminal is opened')
    if (this.#connection?.isOpen !== true) this.#connection = new Connection(this.#subprocesses, this.#options)
    return this.#connection
  }

  /** Ends the host, with all that still runs in it. */
  async dispose(): Promise<void> {
    this.#isDisposed = true
    await this.#connection?.end()
  }
}

/** One run of the host. */
export class Connection {
  readonly #handle: ProcessHandle
  readonly #warn: (message: string, details: object) => void
  readonly #listeners = new Map<string, HostListener>()
  readonly #pending = new Map<number, PendingCall>()
  readonly #reader = new FrameReader()
  readonly #watch: SilenceWatch
  #lastRequest = 0
  #isEnding = false
  isOpen = true

  constructor(subprocesses: Subprocesses, { maxSilenceMs, warn }: PtyHostOptions) {
    this.#warn = warn
    this.#watch = new SilenceWatch({
      maxSilenceMs,
      ask: () => void this.call('ping', {}).catch(() => undefined),
      onSilence: ({ message }) => void this.#lose(message)
    })
    this.#handle = subprocesses.spawn({
      argv: [process.execPath, fileURLToPath(new URL('./host/host-process.js', import.meta.url))],
      cwd: '/',
      stdin: 'pipe',
      stdout: 'pipe',
      stderr: { maxBytes: MAX_STDERR_BYTES },
      graceMs: GRACE_MS,
      marksLimits: true,
      // Whatever the server's own Node was told is not meant for this one.
      env: { NODE_OPTIONS: undefined }
    })
    this.#handle.stdout?.on('data', (chunk: Uint8Array) => this.#receive(chunk))
    this.#handle.done.then(
      ({ exitCode, signal }) => void this.#lose(`it ended with ${signal ?? exitCode}`),
      (error: unknown) => void this.#lose(error instanceof Error ? error.message : String(error))
    )
  }

  listen(id: string, listener: HostListener): void {
    this.#listeners.set(id, listener)
  }

  /** Asks the host. Rejects with `TERMINAL_REFUSED` and what it says, or `TERMINAL_LOST` when it dies before it answers. */
  call<M extends HostMethod>(method: M, args: HostCalls[M]['args']): Promise<HostCalls[M]['answer']> {
    if (!this.isOpen) return Promise.reject(lost('it has ended'))
    const request = ++this.#lastRequest
    return new Promise((resolve, reject) => {
      this.#pending.set(request, { resolve, reject })
      this.#watch.start()
      this.#handle.stdin?.write(frameOf({ request, method, args }))
    })
  }

  /** Nobody asks for this terminal any more. */
  forget(id: string): void {
    this.#listeners.delete(id)
    if (this.isOpen) void this.call('forget', { id }).catch(() => undefined)
  }

  /** Resolves when nothing of the host, and of what it held, is left; rejects when that takes too long. */
  async whenGone(): Promise<void> {
    const isGone = await this.#handle.waitForExit(AbortSignal.timeout(GONE_MS))
    if (!isGone) throw new TerminalError('TERMINAL_LOST', 'not everything that ran in lost terminals could be ended')
  }

  async end(): Promise<void> {
    this.#isEnding = true
    this.#handle.terminate()
    await this.whenGone()
  }

  #receive(chunk: Uint8Array): void {
    this.#watch.heard()
    try {
      for (const message of this.#reader.read(chunk)) this.#take(message as FromHost)
    } catch (error) {
      // Not a frame: the stream cannot be read on.
      void this.#lose(error instanceof Error ? error.message : String(error))
    }
  }

  #take(message: FromHost): void {
    if (message.type === 'output') return this.#listeners.get(message.id)?.onOutput(message.text, message.offset)
    if (message.type === 'exited') return this.#listeners.get(message.id)?.onExit(message.exitCode, message.signal)
    const call = this.#pending.get(message.request)
    this.#pending.delete(message.request)
    if (this.#pending.size === 0) this.#watch.stop()
    if (message.type === 'answer') call?.resolve(message.value as never)
    else call?.reject(new TerminalError('TERMINAL_REFUSED', message.message))
  }

  /** Its terminals are gone: whatever of them is left, of theirs also what left their sessions, is ended. */
  async #lose(cause: string): Promise<void> {
    if (!this.isOpen) return
    this.isOpen = false
    this.#watch.stop()
    this.#handle.terminate()
    const error = lost(cause)
    for (const call of this.#pending.values()) call.reject(error)
    this.#pending.clear()
    for (const listener of this.#listeners.values()) listener.onLost(error)
    this.#listeners.clear()
    if (this.#isEnding) return
    const stderr = await this.#handle.collected.stderr?.readFrom(0)
    this.#warn('the process that held the terminals ended', { cause, stderr: stderr?.text })
  }
}

const lost = (cause: string): TerminalError =>
  new TerminalError('TERMINAL_LOST', `the process that held the terminal is gone: ${cause}`)
