import { startFrame } from '../protocol.js'

/** @import { World } from './world.ts' */

/** How long a world may take to start; on a busy machine that is seconds. */
const startMs = 20_000
/** While a run goes on, its place among the spares is filled again only after this: starting costs a processor for some 70 ms. */
const refillMs = 200
/** After a run its answer is stored and sent first: to end a world and to start one keep a processor busy for longer than that takes. */
export const answerMs = 10

/** A world that did not get as far as being ready. */
export class WorldStartError extends Error {}

/**
 * Worlds that are started but have run nothing. Each serves one program; one that dies before is replaced and never seen
 * (code-mode.md §14.7).
 */
export class Spares {
  #open
  #count
  #onReady
  /** Starting or ready, in the order of their start. @type {Set<Promise<World>>} */
  #worlds = new Set()
  /** @type {Set<World>} */
  #alive = new Set()
  /** Those of `#worlds` that are ready. @type {Map<World, Promise<World>>} */
  #ready = new Map()
  #refill = /** @type {NodeJS.Timeout | undefined} */ (undefined)
  #isStarting = false
  #isClosed = false

  /** @param {() => World} open starts a world @param {number} count @param {(count: number) => void} onReady hears how many are ready */
  constructor(open, count, onReady) {
    this.#open = open
    this.#count = count
    this.#onReady = onReady
  }

  /** A fresh world; Rejects with the reason if none starts. @returns {Promise<World>} */
  async take() {
    for (const starting of this.#worlds) {
      this.#worlds.delete(starting)
      const world = await starting.catch(() => undefined)
      if (world !== undefined && !world.hasEnded) {
        this.#alive.delete(world)
        this.#leave(world)
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
  refillAfterAnswer() {
    setTimeout(() => this.refillNow(), answerMs)
  }

  /** One after another: each start is the others' load. */
  refillNow() {
    clearTimeout(this.#refill)
    this.#refill = undefined
    if (this.#isClosed || this.#isStarting || this.#worlds.size >= this.#count) return
    this.#isStarting = true
    const starting = this.#start()
    this.#worlds.add(starting)
    starting
      .then((world) => {
        this.#isStarting = false
        if (!this.#worlds.has(starting)) return this.refillSoon()
        this.#join(world, starting)
        this.refillNow()
      })
      // Whoever takes it hears of the failure; without spares the next run starts its own.
      .catch(() => {
        this.#isStarting = false
        this.#worlds.delete(starting)
      })
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
    const starting = Promise.resolve(world)
    this.#worlds.add(starting)
    this.#join(world, starting)
  }

  /** @param {World} world @param {Promise<World>} starting */
  #join(world, starting) {
    this.#ready.set(world, starting)
    this.#onReady(this.#ready.size)
  }

  /** @param {World} world */
  #leave(world) {
    const starting = this.#ready.get(world)
    if (starting === undefined) return
    this.#worlds.delete(starting)
    this.#ready.delete(world)
    this.#onReady(this.#ready.size)
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
        this.#leave(world)
        this.refillSoon()
      }
    }
  }
}

/** What a world runs before it is ready, so that all is compiled that a program takes its way through. */
const rehearsal = startFrame(
  [{ global: 'tools', names: ['rehearse'], errorClass: { name: 'ToolCallError', memberNameProperty: 'tool' } }],
  'return await tools.rehearse({ of: [1] })'
)

/** Resolves when a world is ready. @param {World} world @returns {Promise<void>} */
export function started(world) {
  return new Promise((resolve, reject) => {
    let said = ''
    world.send(rehearsal)
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
