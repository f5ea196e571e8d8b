import { setTimeout as wait } from 'node:timers/promises'
import { processRow, ProcessTable, sendSignal } from './process-table.js'
import { readMark } from './tree-mark.js'

/** @import { ProcessRow } from './messages.ts' */

/** Looks at most; a process that cannot be ended (in the kernel) must not keep the server from starting. */
const MAX_LOOKS = 100

/**
 * Ends what a server that died left behind (reliability.md R8): every process with a mark of this data directory and of a server that is no
 * longer there.
 * @param {number} directory its number in the marks
 * @returns {Promise<number>} how many processes were ended
 */
export async function endStrays(directory) {
  /** @type {Set<string>} */
  const ended = new Set()
  const table = new ProcessTable()
  for (let look = 0; look < MAX_LOOKS; look++) {
    const strays = table.look().filter((row) => isStray(row, directory))
    if (strays.length === 0) break
    for (const row of strays) {
      sendSignal(row.pid, 'SIGKILL')
      ended.add(`${row.pid}.${row.start}`)
    }
    await wait(20)
  }
  return ended.size
}

/** @param {ProcessRow} row @param {number} directory */
function isStray({ markers, start }, directory) {
  return markers.some((marker) => {
    const mark = readMark(marker)
    if (mark?.directory !== directory) return false
    const server = processRow(mark.server)
    // A process is older than what it started: one that is younger only has the dead server's number.
    return server === undefined || server.zombie || Number(server.start) > Number(start)
  })
}
