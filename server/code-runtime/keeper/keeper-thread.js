/**
 * The thread that holds the worlds: it starts them, reads and checks all that they say, meters them and ends them. Starting a process
 * blocks a thread for about 10 ms in a server's process, and a program may send as fast as a pipe carries: neither may touch the main
 * loop, which hears only of calls and results.
 */
import { randomInt } from 'node:crypto'
import { parentPort, workerData } from 'node:worker_threads'
import { ChildWorld } from './child-world.js'
import { processesOfUser } from './process-table.js'
import { Run } from './run.js'
import { Spares, WorldStartError, started } from './spares.js'
import { ThreadWorld } from './thread-world.js'

/** @import { FromKeeper, KeeperOptions, Launch, RunOrder, ToKeeper } from './messages.ts' */
/** @import { World } from './world.ts' */

const maxUserTries = 5
const meterEveryMs = 25
/** Worlds that one run may lose before its program has begun. */
const maxLosses = 3

const { source, budgets } = /** @type {KeeperOptions} */ (workerData)
const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort)
/** @param {FromKeeper} message */
const post = (message) => port.postMessage(message)

/** @type {Map<number, Run>} */
const runs = new Map()
/** Worlds that were told to end and have not yet. @type {Set<World>} */
const ending = new Set()
/** Those of them whose grace is over. @type {Set<World>} */
const stuck = new Set()
let worldsOpened = randomInt(1_000_000)
let meter = /** @type {NodeJS.Timeout | undefined} */ (undefined)

const silent = { frame() {}, raw() {}, ended() {} }

/** @param {Launch} launch @returns {World} */
function openProcess(launch) {
  return new ChildWorld(silent, launch, launch.users && nextUser(launch.users), budgets.maxOutputBytes)
}

/**
 * A user id for a world. One that has a process already belongs to another server, which begins elsewhere in the range: what is left of
 * a world without a namespace is found by its user, and killed.
 * @param {{ first: number, count: number }} users
 */
function nextUser({ first, count }) {
  for (let tries = 1; ; tries += 1) {
    worldsOpened += 1
    const user = first + (worldsOpened % count)
    if (tries === maxUserTries || processesOfUser(user).length === 0) return user
  }
}

/** @param {() => World} openWorld */
const sparesOf = (openWorld) => new Spares(openWorld, budgets.spareWorlds, (count) => post({ type: 'spares', count }))

/** Finds the first way in which worlds start here; rejects if there is none. */
async function open() {
  if (source.type === 'thread') {
    const spares = sparesOf(() => new ThreadWorld(silent, budgets))
    spares.refillNow()
    post({ type: 'open', containment: { pidNamespace: false, ownUser: false, limits: false } })
    return spares
  }
  let reason = ''
  for (const launch of source.launches) {
    const world = openProcess(launch)
    try {
      await started(world)
    } catch (error) {
      void world.end()
      reason = error instanceof Error ? error.message : String(error)
      continue
    }
    const spares = sparesOf(() => openProcess(launch))
    if (budgets.spareWorlds > 0) spares.keep(world)
    else end(world)
    spares.refillNow()
    post({ type: 'open', containment: launch.containment })
    return spares
  }
  post({ type: 'unavailable', message: reason })
  throw new WorldStartError(reason)
}

/** @param {RunOrder} order */
function start(order) {
  let losses = 0
  const run = new Run(
    order,
    budgets,
    post,
    (world) => {
      runs.delete(order.run)
      if (runs.size === 0) {
        clearInterval(meter)
        meter = undefined
      }
      if (world !== undefined) end(world)
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
    run.fail('worker-exit', `No world could be started: ${error instanceof Error ? error.message : String(error)}`)
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

/** @param {World} world */
function end(world) {
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

port.on('message', (/** @type {ToKeeper} */ message) => {
  switch (message.type) {
    case 'run':
      return start(message)
    case 'reply':
      return runs.get(message.run)?.reply(message.id, message.value)
    case 'refuse':
      return runs.get(message.run)?.refuse(message.id, message.message)
    case 'abort':
      return runs.get(message.run)?.fail('abort', message.reason)
    case 'dispose':
      return void dispose()
  }
})

const opening = open()
// Whoever wants a world hears of it.
opening.catch(() => {})
