import { setTimeout as wait } from 'node:timers/promises'
import { processRow, ProcessTable, sendSignal } from './process-table.js'

/** Looks at most; a process that cannot be ended (in the kernel) must not keep the server from starting. */
const MAX_LOOKS = 100

/**
 * Ends what a server that died left behind (reliability.md R8): every process whose marker begins with `prefix` and names a server
 * that is no longer there. Markers are `<prefix>.<server's pid>.<server's start>.<random>`.
 * @param {string} prefix
 * @returns {Promise<number>} how many processes were ended
 */
export async function endStrays(prefix) {
  /** @type {Set<string>} */
  const ended = new Set()
  const table = new ProcessTable()
  for (let look = 0; look < MAX_LOOKS; look++) {
    const strays = table.look().filter((row) => isStray(row.marker, prefix))
    if (strays.length === 0) break
    for (const row of strays) {
      sendSignal(row.pid, 'SIGKILL')
      ended.add(`${row.pid}.${row.start}`)
    }
    await wait(20)
  }
  return ended.size
}

/** @param {string | undefined} marker @param {string} prefix */
function isStray(marker, prefix) {
  if (marker === undefined || !marker.startsWith(`${prefix}.`)) return false
  const [pid, start] = marker.slice(prefix.length + 1).split('.')
  const server = pid === undefined ? undefined : processRow(pid)
  return server === undefined || server.zombie || server.start !== start
}
