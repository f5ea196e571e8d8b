import { Run } from './run.js'
import { Spares, answerMs } from './spares.js'

/** @import { RuntimeBudgets } from '../budgets.ts' */
/** @import { Containment } from '../code-runtime.ts' */
/** @import { FromKeeper, RunOrder, ToKeeper } from './messages.ts' */
/** @import { World } from './world.ts' */

const meterEveryMs = 25
/** Worlds that one run may lose before its program has begun. */
const maxLosses = 3

/**
 * A way to start worlds, `first` being one that was started to see whether it does.
 * @typedef {{ containment: Containment, open: () => World, first?: World }} WorldWay
 */

/**
 * Holds the worlds: starts them, reads and checks all that they say, meters them and ends them. A program may send as fast as a pipe
 * carries, so this goes on beside the main loop, which hears only of calls and results.
 * @param {RuntimeBudgets} budgets @param {(message: FromKeeper) => void} post to the server
 * @param {() => Promise<WorldWay>} findWay rejects if worlds do not start here
 * @returns {{ receive(message: ToKeeper): void, dispose(): Promise<void> }}
 */
export function keepWorlds(budgets, post, findWay) {
  /** @type {Map<number, Run>} */
  const runs = new Map()
  /** Worlds that were told to end and have not yet. @type {Set<World>} */
  const ending = new Set()
  /** Those of them whose grace is over. @type {Set<World>} */
  const stuck = new Set()
  let meter = /** @type {NodeJS.Timeout | undefined} */ (undefined)

  async function open() {
    const { containment, open: openWorld, first } = await findWay()
    const spares = new Spares(openWorld, budgets.spareWorlds, (count) => post({ type: 'spares', count }))
    if (first !== undefined && budgets.spareWorlds > 0) spares.keep(first)
    else if (first !== undefined) end(first)
    spares.refillNow()
    post({ type: 'open', containment })
    return spares
  }

  /** @param {RunOrder} order */
  function start(order) {
    let losses = 0
    const run = new Run(
      order,
      budgets,
      post,
      (world, isComplete) => {
        runs.delete(order.run)
        if (runs.size === 0) {
          clearInterval(meter)
          meter = undefined
        }
        if (world !== undefined) endSoon(world, isComplete)
        void refill()
      },
      (reason) => {
        losses += 1
        if (losses < maxLosses) void place(run)
        else run.fail('worker-exit', reason)
      }
    )
    runs.set(order.run, run)
    meter ??= setInterval(check, meterEveryMs)
    void place(run)
  }

  /** Gives a run its world. @param {Run} run */
  async function place(run) {
    try {
      // A keeper that takes over from a dead one gets runs before it is open.
      const spares = await opening
      const world = await spares.take()
      if (!run.start(world)) spares.keep(world)
    } catch (error) {
      run.fail('worker-exit', `No world could be started: ${messageOf(error)}`)
    }
  }

  async function refill() {
    const spares = await opening.catch(() => undefined)
    spares?.refillAfterAnswer()
  }

  function check() {
    for (const run of runs.values()) {
      run.check()
      run.flushLive()
    }
  }

  /** @param {World} world @param {boolean} isComplete whether its program has come to its end by itself */
  function endSoon(world, isComplete) {
    if (!isComplete) return end(world)
    ending.add(world)
    setTimeout(end, answerMs, world)
  }

  /** @param {World} world */
  function end(world) {
    ending.delete(world)
    if (world.hasEnded) return
    ending.add(world)
    const timer = setTimeout(() => {
      stuck.add(world)
      post({ type: 'stuck', count: stuck.size })
    }, budgets.terminateGraceMs)
    void world.end().then(() => {
      clearTimeout(timer)
      ending.delete(world)
      if (stuck.delete(world)) post({ type: 'stuck', count: stuck.size })
    })
  }

  async function dispose() {
    for (const run of runs.values()) run.fail('abort', 'The code runtime is being disposed.')
    const spares = await opening.catch(() => undefined)
    for (const world of spares?.close() ?? []) end(world)
    const deadline = performance.now() + budgets.terminateGraceMs
    while ((runs.size > 0 || ending.size > 0) && performance.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    post({ type: 'disposed' })
  }

  const opening = open()
  opening.catch((error) => post({ type: 'unavailable', message: messageOf(error) }))

  return {
    receive(message) {
      switch (message.type) {
        case 'run':
          return start(message)
        case 'reply':
          return runs.get(message.run)?.reply(message.id, message.value)
        case 'refuse':
          return runs.get(message.run)?.refuse(message.id, message.message)
        case 'abort':
          return runs.get(message.run)?.fail('abort', message.reason)
        case 'ping':
          return post({ type: 'pong' })
        case 'dispose':
          return void dispose()
      }
    },
    dispose
  }
}

/** @param {unknown} error */
const messageOf = (error) => (error instanceof Error ? error.message : String(error))
