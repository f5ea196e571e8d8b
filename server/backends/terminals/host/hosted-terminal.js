import { readSync, statSync } from 'node:fs'
import { constants } from 'node:os'
import { setTimeout as wait } from 'node:timers/promises'
import { spawn } from 'node-pty'
import { inheritableDescriptors } from '../../../processes/inheritable-descriptors.js'
import { processRow, TREE_VARIABLE } from '../../subprocess/process-table.js'
import { ControlFilter } from './control-filter.js'
import { endTerminal, hostMarker } from './end-processes.js'
import { foregroundGroup } from './foreground.js'
import { InputWait } from './input-wait.js'
import { InputWriter } from './input-writer.js'
import { LiveOutput } from './live-output.js'
import { Transcript } from './transcript.js'

/** @import { FromHost, PtySpec, SendOutcome } from '../messages.ts' */
/** @import { TerminalSignal, TerminalStatus } from '../terminals.ts' */

/** Tries to signal a foreground that changes just then. */
const MAX_SIGNAL_TRIES = 5

/** Reads of what a shell left when it ended; what it left running may write for ever. */
const MAX_LAST_READS = 4_096

/** What is private in node-pty: its descriptor, and the stream that knows whether that is still open. */
/** @typedef {{ fd: number, _socket: import('node:tty').ReadStream, ptsName: string }} Inside */

/** One terminal in the process that holds them: a shell on a PTY, and the text of it. */
export class HostedTerminal {
  /** @type {TerminalStatus} */
  status = { kind: 'running' }
  marks = 0
  /**
   * The process that prints the prompt, known with the first one: in a sandbox it is not the one that was started.
   * @type {number | undefined}
   */
  shell
  lastOutputAt = performance.now()
  /** What came after the last prompt mark, as far as it may be the prompt. */
  #afterMark = ''
  #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  #filter = new ControlFilter()
  #transcript
  #live
  #writer
  #pty
  #exited
  #start
  /** @type {InputWait | undefined} */
  #wait
  /** @type {Promise<SendOutcome> | undefined} */
  #sending
  #isCancelled = false
  #isClosed = false

  /**
   * Starts the shell; throws when that cannot be done.
   * @param {PtySpec} spec
   * @param {(message: FromHost) => void} post
   */
  constructor(spec, post) {
    const { id, argv, cwd, env, rows, cols, limits } = spec
    this.spec = spec
    if (!isDirectory(cwd)) throw new Error(`the working directory ${JSON.stringify(cwd)} is not there`)
    const [file, ...args] = closingOthers(argv)
    this.#transcript = new Transcript(limits)
    this.#live = new LiveOutput(this.#transcript, limits.liveBytesPerSecond, (text, offset) =>
      post({ type: 'output', id, offset, text })
    )
    this.#pty = spawn(file, args, {
      cwd,
      env: { ...env, [TREE_VARIABLE]: hostMarker },
      rows,
      cols,
      encoding: null
    })
    const inside = /** @type {Inside} */ (/** @type {unknown} */ (this.#pty))
    this.pid = this.#pty.pid
    this.tty = inside.ptsName
    this.#start = processRow(this.pid)?.start ?? ''
    this.#writer = new InputWriter({ fd: inside.fd, isOpen: () => !inside._socket.destroyed })
    /** @param {Uint8Array} chunk */
    const take = (chunk) => this.#take(this.#decoder.decode(chunk, { stream: true }))
    readToTheEnd(inside, take)
    // Without an encoding the chunks are bytes.
    this.#pty.onData((chunk) => take(/** @type {Uint8Array} */ (/** @type {unknown} */ (chunk))))
    this.#pty.onExit(({ exitCode, signal }) => {
      this.#take(this.#decoder.decode())
      this.#append(this.#filter.end())
      this.status = signal
        ? { kind: 'exited', exitCode: null, signal: nameOfSignal(signal) }
        : { kind: 'exited', exitCode, signal: null }
      this.#live.end()
      this.#writer.clear()
      this.#wait?.end('session_exit')
      post({ type: 'exited', id, exitCode: this.status.exitCode, signal: this.status.signal })
    })
    this.#exited = new Promise((resolve) => this.#pty.onExit(() => resolve(undefined)))
  }

  get isAtPrompt() {
    return this.#afterMark === this.spec.prompt
  }

  get total() {
    return this.#transcript.total
  }

  get isWriting() {
    return !this.#writer.isIdle
  }

  /** Resolves with what the shell showed until it was ready; rejects, with nothing left, when it is not ready in time. */
  async ready() {
    this.#wait = new InputWait(this, this.spec.limits, { isStart: true })
    const reason = await this.#wait.done
    if (reason === 'stdin_read' || reason === 'inferred_idle') return this.#transcript.tail(0).text
    await this.close()
    throw new Error(reason === 'timeout' ? 'the shell was not ready in time' : 'the shell ended before it was ready')
  }

  /** @param {string} text */
  send(text) {
    if (this.status.kind === 'exited' || this.#isClosed) throw new Error('the shell has exited')
    const offset = this.total
    this.#isCancelled = false
    this.#wait = new InputWait(this, this.spec.limits, { isStart: false })
    this.#writer.write(text)
    this.#sending = this.#wait.done.then((waitReason) => {
      const end = this.total
      const { text: viewport, lossy: truncated } = this.#transcript.tail(offset, end)
      const { status: sessionStatus, isWriting } = this
      return { viewport, truncated, waitReason, sessionStatus, end, isWriting, isCancelled: this.#isCancelled }
    })
    return { offset }
  }

  /** @returns {Promise<SendOutcome>} */
  async sent() {
    if (this.#sending === undefined) throw new Error('nothing was sent')
    return this.#sending
  }

  /** Ends the send under way, dropping what is not written, and interrupts the foreground. */
  cancel() {
    this.#isCancelled = true
    this.#writer.clear()
    try {
      if (this.status.kind === 'running' && foregroundGroup(this.pid) !== undefined) this.signal('SIGINT')
    } finally {
      this.#wait?.end('timeout')
    }
  }

  drained() {
    return this.#writer.whenIdle()
  }

  /** @param {string} text */
  input(text) {
    if (this.status.kind === 'exited' || this.#isClosed) throw new Error('the shell has exited')
    this.#writer.write(text)
  }

  /** @param {number} offset @param {number} count */
  page(offset, count) {
    return this.#transcript.page(offset, count)
  }

  /** @param {number} after @param {number} maxBytes @param {number} [end] */
  output(after, maxBytes, end) {
    return this.#transcript.head(after, maxBytes, end)
  }

  /**
   * Signals the foreground process group.
   * @param {TerminalSignal} signal
   * @returns {number} the group
   */
  signal(signal) {
    for (let tries = 1; ; tries++) {
      const group = this.status.kind === 'running' ? foregroundGroup(this.pid) : undefined
      if (group === undefined) throw new Error('nothing runs in the foreground')
      if (signal === 'SIGKILL' && group === this.shell)
        throw new Error('the shell itself is not killed; close the terminal')
      try {
        process.kill(-group, signal)
        return group
      } catch (error) {
        // It ended just now; the next one is in its place.
        if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'ESRCH' || tries === MAX_SIGNAL_TRIES) throw error
      }
    }
  }

  /** Ends all processes; rejects when some cannot be ended, and can be called again. */
  async close() {
    this.#isClosed = true
    this.#writer.clear()
    this.#wait?.stop()
    try {
      const { pid, shell = pid, spec } = this
      const { graceMs } = spec.limits
      await endTerminal({ id: spec.id, pid, start: this.#start, shell, graceMs })
      // How the shell ended is told a moment after it is gone: a send that ends before would end by the exit of a session that runs.
      await Promise.race([this.#exited, wait(graceMs, undefined, { ref: false })])
    } finally {
      this.#wait?.end('session_exit')
    }
  }

  /** @param {string} input */
  #take(input) {
    const { text, markAt } = this.#filter.write(input)
    if (markAt >= 0) {
      this.marks++
      this.shell ??= foregroundGroup(this.pid)
      this.#afterMark = ''
    }
    this.#append(text, markAt)
  }

  /** @param {string} text @param {number} [markAt] */
  #append(text, markAt = -1) {
    if (text === '') return
    const after = markAt < 0 ? text : text.slice(markAt)
    if (this.#afterMark.length <= this.spec.prompt.length) {
      this.#afterMark += after.slice(0, this.spec.prompt.length + 1)
    }
    this.lastOutputAt = performance.now()
    this.#transcript.write(text)
    this.#live.notice()
  }
}

/**
 * Nobody else reads all that a shell has printed at its end: libuv takes a hang-up with a short read for the end of the stream, and
 * the reads of a terminal are short; and node-pty closes it 200 ms after the exit, whatever is left.
 * @param {Inside} inside
 * @param {(chunk: Uint8Array) => void} take
 */
function readToTheEnd({ _socket: socket, fd }, take) {
  const close = socket.destroy.bind(socket)
  socket.destroy = (error) => {
    if (!socket.destroyed) readRest(fd, take)
    return close(error)
  }
}

/** @param {number} fd @param {(chunk: Uint8Array) => void} take */
function readRest(fd, take) {
  const chunk = Buffer.alloc(4_096)
  try {
    for (let reads = 0; reads < MAX_LAST_READS; reads++) {
      const length = readSync(fd, chunk)
      if (length === 0) return
      take(chunk.subarray(0, length))
    }
  } catch {
    // EIO is the end; EAGAIN is nothing more from what the shell left running.
  }
}

/**
 * The command line that closes what else the shell would get: node-pty leaves the other ends of all terminals open, and who has one reads
 * what is shown there and types what they like. Only bash can name a descriptor of several digits; privileged, it reads no file first.
 * @param {PtySpec['argv']} argv
 * @returns {PtySpec['argv']}
 */
function closingOthers(argv) {
  const closings = inheritableDescriptors().map((descriptor) => `${descriptor}>&-`)
  return closings.length === 0 ? argv : ['/bin/bash', '-p', '-c', `exec "$@" ${closings.join(' ')}`, 'bash', ...argv]
}

/** @param {number} number */
function nameOfSignal(number) {
  const [name] = Object.entries(constants.signals).find(([, value]) => value === number) ?? []
  return name ?? `SIG${number}`
}

/** @param {string} path */
function isDirectory(path) {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
}
