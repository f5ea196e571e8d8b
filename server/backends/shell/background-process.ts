import type { OutputPiece, ProcessHandle } from '../subprocess/subprocess.ts'
import { joinStreams } from './join-streams.ts'
import type { BackgroundCommand, OutputDelta, SandboxFacts } from './shell.ts'

/** A command that nobody waits for. Its process belongs to the subprocess service (backends.md §3.1). */
export class BackgroundProcess implements BackgroundCommand {
  status: BackgroundCommand['status'] = 'running'
  exitCode: number | null = null
  signal: string | null = null
  sandbox?: SandboxFacts
  readonly done: Promise<void>
  readonly #handle: ProcessHandle | undefined
  readonly #offsets = { stdout: 0, stderr: 0 }
  /** Why nothing was started, until it was read. */
  #failure = ''
  #isKilled = false
  readonly #endMs: number
  /** Reads queue up, so that none delivers what another one does. */
  #reading: Promise<unknown> = Promise.resolve()

  /**
   * `endMs` is how long a tree that is being ended is waited for. `judge` tells, once the command is done, what is known of its sandbox;
   * where it rejects, nothing is known of the command either.
   */
  constructor(spawn: () => ProcessHandle, endMs: number, judge?: (handle: ProcessHandle) => Promise<SandboxFacts>) {
    this.#endMs = endMs
    try {
      this.#handle = spawn()
    } catch (error) {
      this.done = Promise.resolve(this.#fail(error))
      return
    }
    this.done = this.#settle(this.#handle, judge)
  }

  async #settle(handle: ProcessHandle, judge?: (handle: ProcessHandle) => Promise<SandboxFacts>): Promise<void> {
    try {
      const { exitCode, signal } = await handle.done
      // What was ended has ended when nothing of it runs any more.
      if (this.#isKilled) await handle.waitForExit(AbortSignal.timeout(this.#endMs))
      if (judge !== undefined) this.sandbox = await judge(handle)
      this.exitCode = exitCode
      this.signal = signal
      // Any death by signal counts as killed, whoever sent it; so does ending after kill().
      this.status = signal !== null || this.#isKilled ? 'killed' : 'completed'
    } catch (error) {
      this.#fail(error)
    }
  }

  #fail(error: unknown): void {
    this.#failure = error instanceof Error ? error.message : String(error)
    this.status = 'killed'
  }

  kill(): boolean {
    if (this.status !== 'running' || this.#isKilled) return false
    this.#isKilled = true
    this.#handle?.terminate()
    return true
  }

  async endLeftovers(): Promise<void> {
    this.#handle?.terminate()
    await this.#handle?.waitForExit(AbortSignal.timeout(this.#endMs))
  }

  async readPiece(stream: 'stdout' | 'stderr', byteOffset: number, maxBytes: number): Promise<OutputPiece> {
    const piece = await this.#handle?.collected[stream]?.readPiece(byteOffset, maxBytes)
    return piece ?? { text: '', from: 0, nextOffset: 0, lossy: false }
  }

  readOutput(): Promise<OutputDelta> {
    const delta = this.#reading.then(() => this.#readDelta())
    this.#reading = delta.catch(() => {})
    return delta
  }

  async #readDelta(): Promise<OutputDelta> {
    const stdout = await this.#handle?.collected.stdout?.readFrom(this.#offsets.stdout)
    const stderr = await this.#handle?.collected.stderr?.readFrom(this.#offsets.stderr)
    this.#offsets.stdout = stdout?.nextOffset ?? 0
    this.#offsets.stderr = stderr?.nextOffset ?? 0
    const errors = (stderr?.text ?? '') + this.#failure
    this.#failure = ''
    return {
      text: joinStreams(stdout?.text ?? '', errors),
      lossy: stdout?.lossy === true || stderr?.lossy === true,
      spillPaths: [stdout?.spillPath, stderr?.spillPath].filter((path) => path !== undefined)
    }
  }
}
