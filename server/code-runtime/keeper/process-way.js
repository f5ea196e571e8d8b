import { randomInt } from 'node:crypto'
import { ChildWorld } from './child-world.js'
import { processesOfUser } from './process-table.js'
import { started, WorldStartError } from './spares.js'

/** @import { Launch } from './messages.ts' */
/** @import { WorldWay } from './keep-worlds.js' */

const maxUserTries = 5

const silent = { frame() {}, raw() {}, ended() {} }

/**
 * The first way in which processes of worlds start here; rejects if there is none.
 * @param {readonly Launch[]} launches @param {number} maxOutputBytes
 * @param {() => Promise<void> | undefined} room what worlds wait for with all that they say
 * @returns {Promise<WorldWay>}
 */
export async function findProcessWay(launches, maxOutputBytes, room) {
  let worldsOpened = randomInt(1_000_000)

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

  let reason = ''
  for (const launch of launches) {
    const open = () => new ChildWorld(silent, launch, launch.users && nextUser(launch.users), maxOutputBytes, room)
    const first = open()
    try {
      await started(first)
      return { containment: launch.containment, open, first }
    } catch (error) {
      void first.end()
      reason = error instanceof Error ? error.message : String(error)
    }
  }
  throw new WorldStartError(reason)
}
