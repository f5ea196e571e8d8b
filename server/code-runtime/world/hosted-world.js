import { MessageChannel, Worker, receiveMessageOnPort } from 'node:worker_threads'
import { inspect } from 'node:util'

/**
 * What a world is given to begin with.
 * @typedef {object} WorldSetup
 * @property {import('node:worker_threads').MessagePort} port
 * @property {Int32Array<SharedArrayBuffer>} taken
 * @property {number} maxOutputBytes
 */

/**
 * The host's side of a world's thread: carries frames, hands over what bypasses the console, and says how the thread ended. Used by the
 * relay inside a world's process, and by the keeper where worlds are threads of the server.
 */
export class HostedWorld {
  #worker
  #port
  #taken = new Int32Array(new SharedArrayBuffer(4))
  #emit
  #ended

  /**
   * @param {{ maxOldGenerationSizeMb: number, maxOutputBytes: number }} limits
   * @param {(frame: unknown, passedOn: () => void) => void} emit is given each frame, unchecked, and calls `passedOn` when it is rid of it
   * @param {(code: number) => void} [ended] is told when the thread has ended, after its last frame
   */
  constructor({ maxOldGenerationSizeMb, maxOutputBytes }, emit, ended = () => {}) {
    this.#emit = emit
    const { port1, port2 } = new MessageChannel()
    this.#port = port1
    this.#worker = new Worker(new URL('./world-thread.js', import.meta.url), {
      env: {},
      argv: [],
      execArgv: [],
      stdin: false,
      stdout: true,
      stderr: true,
      resourceLimits: { maxOldGenerationSizeMb }
    })
    port1.on('message', (frame) => this.#receive(frame))
    for (const stream of /** @type {const} */ (['stdout', 'stderr'])) {
      this.#worker[stream].setEncoding('utf8').on('data', (text) => this.#say(['raw', stream, text]))
    }
    this.#worker.on('error', (error) => this.#fail(error))
    this.#ended = new Promise((resolve) => {
      this.#worker.on('exit', (code) => {
        // What it posted before it ended is still in the channel.
        for (let rest = receiveMessageOnPort(port1); rest !== undefined; rest = receiveMessageOnPort(port1))
          this.#receive(rest.message)
        this.#say(['exit', code])
        port1.close()
        ended(code)
        resolve(undefined)
      })
    })
    /** @type {WorldSetup} */
    const setup = { port: port2, taken: this.#taken, maxOutputBytes }
    this.#worker.postMessage(setup, [port2])
  }

  /** Time in ms that the thread was busy or blocked. */
  get busyMs() {
    return this.#worker.performance.eventLoopUtilization().active
  }

  /** @param {string} frame */
  send(frame) {
    this.#port.postMessage(frame)
  }

  /** Ends the thread, and resolves when it has ended: never, if it is stuck in a system call. */
  async end() {
    void this.#worker.terminate()
    await this.#ended
  }

  /** @param {unknown} frame */
  #receive(frame) {
    this.#emit(frame, () => {
      Atomics.add(this.#taken, 0, typeof frame === 'string' ? frame.length : 0)
      Atomics.notify(this.#taken, 0)
    })
  }

  /** @param {unknown[]} header */
  #say(header) {
    this.#emit(JSON.stringify(header), () => {})
  }

  /** @param {unknown} error that the world did not catch itself */
  #fail(error) {
    const { code, message } = /** @type {{ code?: unknown, message?: unknown }} */ (error ?? {})
    if (code === 'ERR_WORKER_OUT_OF_MEMORY') this.#say(['memory'])
    else this.#say(['failed', 'exception', typeof message === 'string' ? message : inspect(error)])
  }
}
