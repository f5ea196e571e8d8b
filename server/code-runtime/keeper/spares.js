/** @import { World } from './world.ts' */

/** How long a world may take to start; on a busy machine that is seconds. */
const startMs = 20_000
/** While a run goes on, its place among the spares is filled again only after this: starting costs a processor for some 70 ms. */
const refillMs = 200

/** A world that did not get as far as being ready. */
export class WorldStartError extends Error {}

/**
 * Worlds that are started but have run nothing. Each serves one program; one that dies before is replaced and never seen
 * (code-mode.md §14.7).
 */
export class Spares {
  #open
  #count
  /** Starting or ready, in the order of their start. @type {Set<Promise<World>>} */
  #worlds = new Set()
  /** @type {Set<World>} */
  #alive = new Set()
  #refill = /** @type {NodeJS.Timeout | undefined} */ (undefined)
  #isClosed = false

  /** @param {() => World} open starts a world @param {number} count */
  constructor(open, count) {
    this.#open = open
    this.#count = count
  }

  /** A fresh world; Rejects with the reason if none starts. @returns {Promise<World>} */
  async take() {
    for (const starting of this.#worlds) {
      this.#worlds.delete(starting)
      const world = await starting.catch(() => undefined)
      if (world !== undefined && !world.hasEnded) {
        this.#alive.delete(world)
        this.refillSoon()
        return world
      }
    }
    this.refillSoon()
    const world = await this.#start()
    this.#alive.delete(world)
    return world
  }

  /** A run has ended, and with it the reason to wait. */
  refillNow() {
    if (this.#isClosed) return
    clearTimeout(this.#refill)
    this.#refill = undefined
    while (this.#worlds.size < this.#count) this.#add(this.#start())
  }

  refillSoon() {
    this.#refill ??= setTimeout(() => this.refillNow(), refillMs)
  }

  /** @returns {World[]} those that are to be ended */
  close() {
    this.#isClosed = true
    clearTimeout(this.#refill)
    this.#worlds.clear()
    return [...this.#alive]
  }

  /** @param {World} world that is ready, as one that was started to see whether it does */
  keep(world) {
    this.#alive.add(world)
    world.usage()
    this.#watch(world)
    this.#add(Promise.resolve(world))
  }

  /** @param {Promise<World>} starting */
  #add(starting) {
    this.#worlds.add(starting)
    // Whoever takes it hears of the failure; without spares the next run starts its own.
    starting.catch(() => this.#worlds.delete(starting))
  }

  async #start() {
    const world = this.#open()
    this.#alive.add(world)
    try {
      await started(world)
    } catch (error) {
      this.#alive.delete(world)
      void world.end()
      throw error
    }
    // Its processes are found now, so that a run need not wait for that.
    world.usage()
    this.#watch(world)
    return world
  }

  /** @param {World} world */
  #watch(world) {
    world.listener = {
      frame() {},
      raw() {},
      ended: () => {
        this.#alive.delete(world)
        this.refillSoon()
      }
    }
  }
}

/** Resolves when a world is ready. @param {World} world @returns {Promise<void>} */
export function started(world) {
  return new Promise((resolve, reject) => {
    let said = ''
    const timer = setTimeout(() => reject(new WorldStartError(`a world did not start within ${startMs} ms`)), startMs)
    world.listener = {
      frame(frame) {
        if (frame === '["ready"]') {
          clearTimeout(timer)
          resolve()
        } else said += String(frame).slice(0, 500)
      },
      raw(_stream, text) {
        said += text.slice(0, 2_000)
      },
      ended({ code, signal, detail }) {
        clearTimeout(timer)
        reject(
          new WorldStartError(
            `a world ended as it started (${detail ?? signal ?? `exit code ${code}`}): ${said.trim().slice(0, 2_000)}`
          )
        )
      }
    }
  })
}
