import { type ChildProcess, spawn } from 'node:child_process'
import { Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { endChild } from '../../processes/end-child.ts'
import { SilenceWatch } from '../../processes/silence-watch.ts'
import { heapMbOf } from '../budgets.ts'
import type { Holder, HolderEvents } from './holder.ts'
import { MessagePipe } from './message-pipe.js'
import type { FromKeeper, ProcessKeeperOptions, ToKeeper } from './messages.ts'

/** Far more than it ever takes, on the busiest machine: with it go all programs that run. */
const usualSilenceMs = 20_000

/** The server's end of the process that holds worlds (keeper-process.js). While it is `ref`ed it is watched. */
export class ProcessHolder implements Holder {
  readonly #child: ChildProcess
  readonly #pipe: MessagePipe<ToKeeper | ProcessKeeperOptions, FromKeeper>
  readonly #watch: SilenceWatch

  constructor(options: ProcessKeeperOptions, { message, lost }: HolderEvents, maxSilenceMs = usualSilenceMs) {
    this.#child = spawn(
      process.execPath,
      [
        `--max-old-space-size=${heapMbOf(options.budgets)}`,
        fileURLToPath(new URL('./keeper-process.js', import.meta.url))
      ],
      // A Ctrl-C is meant for the server.
      { cwd: '/', env: {}, stdio: ['ignore', 'ignore', 'inherit', 'pipe'], detached: true }
    )
    let cause: Error | undefined
    let isLost = false
    const lose = (error: Error): void => {
      if (isLost) return
      isLost = true
      this.#watch.stop()
      lost(new Error(`The process that holds the programs ended: ${(cause ?? error).message}`))
    }
    const onSilence = (silence: Error): void => {
      cause = silence
      void this.end().then(() => lose(silence))
    }
    this.#watch = new SilenceWatch({ maxSilenceMs, ask: () => this.post({ type: 'ping' }), onSilence })
    const receive = (said: FromKeeper): void => {
      this.#watch.heard()
      if (!isLost && said.type !== 'pong') message(said)
    }
    // Where no process could be started there may be no pipe either.
    const socket = (this.#child.stdio as ChildProcess['stdio'] | undefined)?.[3] ?? new Socket()
    this.#pipe = new MessagePipe(socket as Socket, receive, () => void this.end())
    this.#child.on('error', lose)
    this.#child.once('exit', (code, signal) => lose(new Error(`it ended with ${code ?? signal}`)))
    this.#child.unref()
    this.#pipe.post(options)
    this.ref()
  }

  post(message: ToKeeper): void {
    this.#pipe.post(message)
  }

  room(): Promise<void> | undefined {
    return this.#pipe.room()
  }

  ref(): void {
    this.#watch.start()
    this.#pipe.ref()
  }

  unref(): void {
    this.#watch.stop()
    this.#pipe.unref()
  }

  async end(): Promise<void> {
    this.#watch.stop()
    await endChild(this.#child)
  }
}
