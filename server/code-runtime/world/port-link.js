import { postMessage } from './intrinsics.js'

/** Texts that may be on their way before the program is held up: a flood must not pile up in the memory of whoever carries it. */
const maxBacklog = 4 * 1024 * 1024
const waitMs = 100

const { load, wait } = Atomics

/** Frames of a world that is a thread of the server: over a port, which would take any number of them. */
export class PortLink {
  #port
  #taken
  #sent = 0

  /**
   * @param {import('node:worker_threads').MessagePort} port
   * @param {Int32Array<SharedArrayBuffer>} taken [0] counts, modulo 2^32, the code units that the other side has passed on
   * @param {(frame: string) => void} receive
   */
  constructor(port, taken, receive) {
    this.#port = port
    this.#taken = taken
    port.on('message', receive)
  }

  /** Blocks the program while the other side is behind, as a full pipe would. @param {string} frame */
  send(frame) {
    postMessage(this.#port, frame)
    this.#sent = (this.#sent + frame.length) | 0
    for (;;) {
      const taken = load(this.#taken, 0)
      if (((this.#sent - taken) | 0) <= maxBacklog) return
      wait(this.#taken, 0, taken, waitMs)
    }
  }
}
