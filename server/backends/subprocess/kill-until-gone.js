import { setTimeout as wait } from 'node:timers/promises'
import { LOOKS_UNTIL_GONE } from './process-table.js'

/** Looks at most; a process that cannot be ended (in the kernel) must not be waited for without end. */
const MAX_LOOKS = 100

/**
 * Kills again and again, for what is killed may just fork, until nobody is left.
 * @param {() => number} kill looks for what is left, kills it and tells how many those were
 * @returns {Promise<boolean>} whether nobody is left
 */
export async function killUntilGone(kill) {
  for (let look = 0, empty = 0; look < MAX_LOOKS; look++) {
    empty = kill() === 0 ? empty + 1 : 0
    if (empty === LOOKS_UNTIL_GONE) return true
    await wait(20)
  }
  return false
}
