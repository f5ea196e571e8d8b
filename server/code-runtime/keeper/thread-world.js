import { HostedWorld } from '../world/hosted-world.js'

/** @import { World, WorldListener } from './world.ts' */

/** A world that is a thread of the server's process (code-mode.md §15.1 says what that cannot contain). @implements {World} */
export class ThreadWorld {
  #hosted
  #hasStarted = false
  hasEnded = false

  /** @param {WorldListener} listener @param {{ maxOldGenerationSizeMb: number, maxOutputBytes: number }} limits */
  constructor(listener, limits) {
    this.listener = listener
    this.#hosted = new HostedWorld(
      limits,
      (frame, passedOn) => {
        passedOn()
        this.listener.frame(frame)
      },
      (code) => {
        this.hasEnded = true
        this.listener.ended({ code, signal: null })
      }
    )
  }

  /** @param {string} frame */
  send(frame) {
    if (this.hasEnded) return
    this.#hosted.send(frame)
    // A thread gets what it is sent: it ends with the process, or by the keeper's own hand.
    if (!this.#hasStarted) this.listener.frame('["started"]')
    this.#hasStarted = true
  }

  // The thread itself is asked, so there is nothing to be told.
  setBusy() {}

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
}
