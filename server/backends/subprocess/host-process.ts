import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { endChild } from '../../processes/end-child.ts'
import { SilenceWatch } from '../../processes/silence-watch.ts'
import type { FromHost, ToHost } from './messages.ts'
import { TREE_VARIABLE } from './process-table.js'

export interface HostOptions {
  /** By which a later server finds a host that hangs. */
  marker: string
  /** Removed by the host when the server is gone. */
  spillDirectory: string
  /** How long it may say nothing while it is `ref`ed. */
  maxSilenceMs: number
  onMessage: (message: Exclude<FromHost, { type: 'pong' }>) => void
  /** It ended, or is stuck. */
  onLost: (cause: Error) => void
}

/**
 * The server's end of the process that owns the others (tree-host.js). Only between `ref` and `unref` it keeps the server's process alive
 * and is watched.
 */
export class HostProcess {
  readonly #child: ChildProcess
  readonly #watch: SilenceWatch
  readonly marker: string

  constructor({ marker, spillDirectory, maxSilenceMs, onMessage, onLost }: HostOptions) {
    this.marker = marker
    this.#watch = new SilenceWatch({ maxSilenceMs, ask: () => this.post({ type: 'ping' }), onSilence: onLost })
    this.#child = fork(fileURLToPath(new URL('./tree-host.js', import.meta.url)), [spillDirectory], {
      env: { [TREE_VARIABLE]: marker },
      // A fork costs what the process is large. What is collected of outputs is not on the heap.
      execArgv: ['--max-old-space-size=128'],
      serialization: 'advanced',
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      // A Ctrl-C is meant for the server.
      detached: true
    })
    this.#child.on('message', (message) => {
      this.#watch.heard()
      const said = message as FromHost
      if (said.type !== 'pong') onMessage(said)
    })
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
    this.#watch.start()
    this.#child.channel?.ref()
  }

  unref(): void {
    this.#watch.stop()
    this.#child.channel?.unref()
  }

  /** Ends it at once; what it still runs is left alone. */
  async end(): Promise<void> {
    this.#watch.stop()
    await endChild(this.#child)
  }
}
