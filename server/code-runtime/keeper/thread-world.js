import { MessageChannel, receiveMessageOnPort } from 'node:worker_threads'
import { HostedWorld } from '../world/hosted-world.js'

/** @import { World, WorldListener } from './world.ts' */

/** A world that is a thread of the server's process (code-mode.md §15.1 says what that cannot contain). @implements {World} */
export class ThreadWorld {
  #hosted
  #port
  #taken = new Int32Array(new SharedArrayBuffer(4))
  hasEnded = false

  /** @param {WorldListener} listener @param {{ maxOldGenerationSizeMb: number, maxOutputBytes: number }} limits */
  constructor(listener, limits) {
    this.listener = listener
    const { port1, port2 } = new MessageChannel()
    this.#port = port1
    port1.on('message', (frame) => this.#receive(frame))
    this.#hosted = new HostedWorld(
      limits,
      { port: port2, taken: this.#taken },
      {
        raw: (stream, text) => this.listener.raw(stream, text),
        ended: (frames, code) => {
          // What it posted before it ended is still in the channel.
          for (let rest = receiveMessageOnPort(port1); rest !== undefined; rest = receiveMessageOnPort(port1))
            this.#receive(rest.message)
          for (const frame of frames) this.listener.frame(frame)
          port1.close()
          this.hasEnded = true
          this.listener.ended({ code, signal: null })
        }
      }
    )
  }

  /** @param {string} frame */
  send(frame) {
    if (!this.hasEnded) this.#port.postMessage(frame)
  }

  usage() {
    return {
      cpuMs: undefined,
      busyMs: this.hasEnded ? undefined : this.#hosted.busyMs,
      rssBytes: undefined,
      processes: 0
    }
  }

  async end() {
    await this.#hosted.end()
  }

  /** @param {unknown} frame */
  #receive(frame) {
    Atomics.add(this.#taken, 0, typeof frame === 'string' ? frame.length : 0)
    Atomics.notify(this.#taken, 0)
    this.listener.frame(frame)
  }
}
