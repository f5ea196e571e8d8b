/** The thread that holds the worlds where these are threads of the server (keep-worlds.js). */
import { parentPort, workerData } from 'node:worker_threads'
import { keepWorlds } from './keep-worlds.js'
import { ThreadWorld } from './thread-world.js'

/** @import { RuntimeBudgets } from '../budgets.ts' */

const budgets = /** @type {RuntimeBudgets} */ (workerData)
const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort)

const keeper = keepWorlds(
  budgets,
  (message) => port.postMessage(message),
  async () => ({
    containment: { pidNamespace: false, ownUser: false, limits: false },
    open: () => new ThreadWorld({ frame() {}, raw() {}, ended() {} }, budgets)
  })
)
port.on('message', (message) => keeper.receive(message))
