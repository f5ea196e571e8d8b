import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { FromHost, ToHost } from './messages.ts'
import { TREE_VARIABLE } from './process-table.js'

export interface HostOptions {
  /** By which a later server finds a host that hangs. */
  marker: string
  /** Removed by the host when the server is gone. */
  spillDirectory: string
  onMessage: (message: FromHost) => void
  onLost: (cause: Error) => void
}

/** The server's end of the process that owns the others (tree-host.js). It keeps the server's process alive only between `ref` and `unref`. */
export class HostProcess {
  readonly #child: ChildProcess

  constructor({ marker, spillDirectory, onMessage, onLost }: HostOptions) {
    this.#child = fork(fileURLToPath(new URL('./tree-host.js', import.meta.url)), [spillDirectory], {
      env: { [TREE_VARIABLE]: marker },
      // A fork costs what the process is large. What is collected of outputs is not on the heap.
      execArgv: ['--max-old-space-size=128'],
      serialization: 'advanced',
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      // A Ctrl-C is meant for the server.
      detached: true
    })
    this.#child.on('message', (message) => onMessage(message as FromHost))
    this.#child.on('error', onLost)
    this.#child.once('exit', (code, signal) => onLost(new Error(`it ended with ${code ?? signal}`)))
    this.#child.unref()
    this.unref()
  }

  post(message: ToHost): void {
    // What cannot be sent was for a host whose loss is told.
    if (this.#child.connected) this.#child.send(message, () => {})
  }

  ref(): void {
    this.#child.channel?.ref()
  }

  unref(): void {
    this.#child.channel?.unref()
  }

  /** Ends it at once; what it still runs is left alone. */
  async end(): Promise<void> {
    const { pid, exitCode, signalCode } = this.#child
    if (pid === undefined || exitCode !== null || signalCode !== null) return
    const exited = once(this.#child, 'exit')
    this.#child.ref()
    this.#child.kill('SIGKILL')
    await exited
  }
}
