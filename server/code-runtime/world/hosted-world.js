import { inspect } from 'node:util'
import { Worker } from 'node:worker_threads'

/** @import { MessagePort } from 'node:worker_threads' */

/**
 * What a world's frames go by: a pipe, or a port and a count, modulo 2^32, of the code units that this side has passed on.
 * @typedef {{ descriptor: number } | { port: MessagePort, taken: Int32Array<SharedArrayBuffer> }} FrameWay
 */

/**
 * What a world is given to begin with.
 * @typedef {{ way: FrameWay, maxOutputBytes: number }} WorldSetup
 */

/**
 * What is heard of a thread beside its frames: output that bypasses the console, and at last its end, with the frames that tell of it.
 * @typedef {object} ThreadEvents
 * @property {(stream: 'stdout' | 'stderr', text: string) => void} raw
 * @property {(frames: string[], code: number) => void} ended
 */

/** Of an error that the world did not catch itself; what is told of a thread's end has to be short (child-world.js). */
const maxMessageUnits = 100_000

/** A world's thread. Used by the relay inside a world's process, and by the keeper where worlds are threads of the server. */
export class HostedWorld {
  #worker
  #ended

  /** @param {{ maxOldGenerationSizeMb: number, maxOutputBytes: number }} limits @param {FrameWay} way @param {ThreadEvents} events */
  constructor({ maxOldGenerationSizeMb, maxOutputBytes }, way, { raw, ended }) {
    this.#worker = new Worker(new URL('./world-thread.js', import.meta.url), {
      env: {},
      argv: [],
      execArgv: [],
      stdin: false,
      stdout: true,
      stderr: true,
      resourceLimits: { maxOldGenerationSizeMb }
    })
    for (const stream of /** @type {const} */ (['stdout', 'stderr'])) {
      this.#worker[stream].setEncoding('utf8').on('data', (text) => raw(stream, text))
    }
    /** @type {unknown[][]} */
    const headers = []
    this.#worker.on('error', (error) => headers.push(failure(error)))
    this.#ended = new Promise((resolve) => {
      this.#worker.on('exit', (code) => {
        ended(
          [...headers, ['exit', code]].map((header) => JSON.stringify(header)),
          code
        )
        resolve(undefined)
      })
    })
    /** @type {WorldSetup} */
    const setup = { way, maxOutputBytes }
    this.#worker.postMessage(setup, 'port' in way ? [way.port] : [])
  }

  /** Time in ms that the thread was busy or blocked. */
  get busyMs() {
    return this.#worker.performance.eventLoopUtilization().active
  }

  /** Ends the thread, and resolves when it has ended: never, if it is stuck in a system call. */
  async end() {
    void this.#worker.terminate()
    await this.#ended
  }
}

/** @param {unknown} error that the world did not catch itself */
function failure(error) {
  const { code, message } = /** @type {{ code?: unknown, message?: unknown }} */ (error ?? {})
  if (code === 'ERR_WORKER_OUT_OF_MEMORY') return ['memory']
  const text = typeof message === 'string' ? message : inspect(error)
  return ['failed', 'exception', text.slice(0, maxMessageUnits)]
}
