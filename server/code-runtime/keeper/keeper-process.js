/**
 * The process that holds the worlds where these are processes (keep-worlds.js). A fork costs what the forking process is large, and holds
 * its threads up: it may not be the server's. When the server is gone, in whatever way, so are the worlds, and this.
 */
import { closeSync } from 'node:fs'
import { Socket } from 'node:net'
import { inheritableDescriptors } from '../../processes/inheritable-descriptors.js'
import { keepWorlds } from './keep-worlds.js'
import { MessagePipe } from './message-pipe.js'
import { findProcessWay } from './process-way.js'

/** @import { FromKeeper, ProcessKeeperOptions, ToKeeper } from './messages.ts' */

for (const descriptor of inheritableDescriptors()) closeSync(descriptor)

// Meant for the server, which may take its time to end: a service's stop is told to all its processes.
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) process.on(signal, () => {})

/** @type {ReturnType<typeof keepWorlds> | undefined} */
let keeper

/** @type {MessagePipe<FromKeeper, ProcessKeeperOptions | ToKeeper>} */
const pipe = new MessagePipe(
  new Socket({ fd: 3, readable: true, writable: true }),
  (message) => {
    if (message.type !== 'options') return keeper?.receive(message)
    const { launches, budgets } = message
    keeper = keepWorlds(
      budgets,
      (said) => pipe.post(said),
      () => findProcessWay(launches, budgets.maxOutputBytes, () => pipe.room())
    )
  },
  () => void end()
)

async function end() {
  await keeper?.dispose()
  process.exit()
}
