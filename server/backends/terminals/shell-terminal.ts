import type { PtySpec, SendOutcome } from './messages.ts'
import type { Connection } from './pty-host.ts'
import {
  TerminalError,
  type TerminalOutput,
  type TerminalPage,
  type TerminalSend,
  type TerminalSession,
  type TerminalSignal,
  type TerminalStatus
} from './terminals.ts'

/** One terminal of the host. */
export class ShellTerminal implements TerminalSession {
  status: TerminalStatus = { kind: 'running' }
  pid = -1
  motd = ''
  readonly #id: string
  readonly #host: Connection
  readonly #waiting = new Set<() => void>()
  /** The host died. */
  #isLost = false
  /** What it showed is no longer kept. */
  #isForgotten = false

  private constructor(id: string, host: Connection) {
    this.#id = id
    this.#host = host
  }

  /** Resolves when the shell is ready. Aborted, or not ready in time, it rejects when nothing of it is left. */
  static async open(
    host: Connection,
    spec: PtySpec,
    { signal, onOutput }: { signal: AbortSignal; onOutput: (text: string, offset: number) => void }
  ): Promise<ShellTerminal> {
    const terminal = new ShellTerminal(spec.id, host)
    host.listen(spec.id, {
      onOutput: (text, offset) => {
        terminal.#wake()
        onOutput(text, offset)
      },
      onExit: (exitCode, signal) => {
        terminal.status = { kind: 'exited', exitCode, signal }
        terminal.#wake()
      },
      onLost: () => {
        terminal.#isLost = true
        terminal.#end()
      }
    })
    const opening = host.call('open', spec)
    let rollback: Promise<void> | undefined
    const onAbort = (): void => void (rollback ??= terminal.close()).catch(() => undefined)
    signal.addEventListener('abort', onAbort, { once: true })
    if (signal.aborted) onAbort()
    try {
      const { pid, motd } = await opening
      Object.assign(terminal, { pid, motd })
      signal.throwIfAborted()
      return terminal
    } catch (error) {
      if (signal.aborted) onAbort()
      // What could not be taken back matters more than why it should have been.
      await rollback
      host.forget(spec.id)
      throw signal.aborted ? signal.reason : error
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  send(text: string): TerminalSend {
    return new ShellSend(this.#id, this.#host, text, () => this.close())
  }

  read(offset: number, count: number): Promise<TerminalPage> {
    if (this.#isForgotten) {
      return Promise.resolve({ text: '', totalLines: 0, lineBegin: offset, lineEnd: offset, truncated: false })
    }
    return this.#host.call('read', { id: this.#id, offset, count })
  }

  async output(after: number, maxBytes: number, signal: AbortSignal): Promise<TerminalOutput> {
    for (let from = after; ;) {
      if (this.#isForgotten) return { text: '', from, next: from, lossy: true }
      // Before the look: what comes right after it must not be missed.
      const news = this.#news(signal)
      const found = await this.#host.call('output', { id: this.#id, after: from, maxBytes }).catch((error: unknown) => {
        news.forget()
        throw error
      })
      if (found.text !== '' || signal.aborted || this.status.kind === 'exited') {
        news.forget()
        return found
      }
      await news.come
      from = found.next
    }
  }

  /** `come` resolves with the next output, with the end, or when the signal fires. */
  #news(signal: AbortSignal): { come: Promise<void>; forget: () => void } {
    let wake = (): void => undefined
    const come = new Promise<void>((resolve) => (wake = resolve))
    const forget = (): void => {
      this.#waiting.delete(woken)
      signal.removeEventListener('abort', woken)
    }
    const woken = (): void => {
      forget()
      wake()
    }
    this.#waiting.add(woken)
    signal.addEventListener('abort', woken, { once: true })
    return { come, forget }
  }

  #wake(): void {
    for (const wake of this.#waiting) wake()
  }

  async input(text: string): Promise<void> {
    await this.#host.call('input', { id: this.#id, text })
  }

  async signal(signal: TerminalSignal): Promise<number> {
    return (await this.#host.call('signal', { id: this.#id, signal })).group
  }

  async close(): Promise<void> {
    if (this.#isLost) return this.#host.whenGone()
    try {
      await this.#host.call('close', { id: this.#id })
    } catch (error) {
      if (!(error instanceof TerminalError && error.code === 'TERMINAL_LOST')) throw error
      // The host died meanwhile: what it held is being ended.
      return this.#host.whenGone()
    }
    this.#host.forget(this.#id)
    this.#end()
  }

  #end(): void {
    this.#isForgotten = true
    if (this.status.kind === 'running') this.status = { kind: 'exited', exitCode: null, signal: null }
    this.#wake()
  }
}

/** A send in the host: it writes, then waits. */
class ShellSend implements TerminalSend {
  readonly done: Promise<SendOutcome>
  readonly released: Promise<void>
  #release = (): void => undefined
  readonly #id: string
  readonly #host: Connection
  readonly #begun: Promise<{ offset: number }>
  readonly #fail: () => Promise<void>
  #offset: number | undefined
  #end: number | undefined
  /** Settles when the interrupt is delivered. */
  #interrupt: Promise<unknown> | undefined

  constructor(id: string, host: Connection, text: string, fail: () => Promise<void>) {
    this.#id = id
    this.#host = host
    this.#fail = fail
    this.#begun = host.call('send', { id, text })
    this.released = new Promise((resolve) => (this.#release = resolve))
    this.done = this.#run()
  }

  async #run(): Promise<SendOutcome> {
    let isWriting = false
    try {
      await this.#begun
      const outcome = await this.#host.call('wait', { id: this.#id })
      this.#end = outcome.end
      isWriting = outcome.isWriting
      if (this.#interrupt === undefined) return outcome
      await this.#interrupted()
      return { ...outcome, isCancelled: true }
    } finally {
      // Before whoever awaits the end hears of it: the next send may come at once.
      if (isWriting) void this.#drain()
      else this.#release()
    }
  }

  async #interrupted(): Promise<void> {
    try {
      await this.#interrupt
    } catch (error) {
      // A terminal whose foreground cannot be reached is of no use (backends.md §5.2).
      await this.#fail()
      throw new TerminalError('INTERRUPT_FAILED', 'the program could not be interrupted; its terminal is ended', {
        cause: error
      })
    }
  }

  async #drain(): Promise<void> {
    await this.#host.call('drain', { id: this.#id }).catch(() => undefined)
    this.#release()
  }

  async readOutput(): Promise<{ text: string; lossy: boolean }> {
    this.#offset ??= (await this.#begun).offset
    const args = { id: this.#id, after: this.#offset, maxBytes: Number.MAX_SAFE_INTEGER }
    const read = await this.#host.call('output', this.#end === undefined ? args : { ...args, end: this.#end })
    this.#offset = read.next
    return { text: read.text, lossy: read.lossy }
  }

  cancel(): void {
    if (this.#interrupt !== undefined || this.#end !== undefined) return
    this.#interrupt = this.#host.call('cancel', { id: this.#id })
    this.#interrupt.catch(() => undefined)
  }
}
