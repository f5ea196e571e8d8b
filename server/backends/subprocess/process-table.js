import { readFileSync, readdirSync } from 'node:fs'

/** @import { ProcessRow, TreeIdentity } from './messages.ts' */

/**
 * The variable that every process of a tree inherits: how one that left the process group is found (reliability.md §3.5). The same mark is
 * its limit of real-time computing (marked-command.js), which also a process without environment has.
 */
export const TREE_VARIABLE = 'TOOLWRIGHT_TREE'

/** How many looks in a row that find nobody mean that a tree is gone: one look can miss a process that just forks. */
export const LOOKS_UNTIL_GONE = 2

const markerInEnvironment = new RegExp(`(?:^|\\0)${TREE_VARIABLE}=([^\\0]*)`)

/** The limit that marks, out of /proc/<pid>/limits: a number or `unlimited`. @param {string} limits */
export const rttimeIn = (limits) => /^Max realtime timeout +\S+ +(\S+)/m.exec(limits)?.[1]

/** @param {string} path @returns {string | undefined} */
export function readProc(path) {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    // The process ended between the listing and the read, or belongs to somebody else.
    return undefined
  }
}

/**
 * @param {string | number} pid
 * @returns {Omit<ProcessRow, 'markers'> | undefined} undefined when there is no such process
 */
export function processRow(pid) {
  const stat = readProc(`/proc/${pid}/stat`)
  if (stat === undefined) return undefined
  // The second field is the name in parentheses and may itself hold spaces and parentheses: count from the last one.
  const [state, parent, group, session, ...rest] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return {
    pid: Number(pid),
    parent: Number(parent),
    group: Number(group),
    session: Number(session),
    start: rest[15] ?? '',
    zombie: state === 'Z' || state === 'X'
  }
}

/** Reads the process table again and again. Each look costs about 0.1 ms a process; what cannot change is read once. */
export class ProcessTable {
  /** @type {Map<number, { start: string, markers: readonly string[] }>} */
  #markers = new Map()
  #earliest

  /** @param {{ since?: string }} [options] start time before which no process is asked for its markers; default all are */
  constructor({ since = '0' } = {}) {
    this.#earliest = Number(since)
  }

  /** Every process of the machine, now. @returns {ProcessRow[]} */
  look() {
    const pids = readdirSync('/proc').filter((name) => /^[0-9]+$/.test(name))
    const rows = pids.flatMap((pid) => processRow(pid) ?? [])
    const found = rows.map((row) => ({ ...row, markers: this.#markersOf(row) }))
    const living = new Set(rows.map((row) => row.pid))
    for (const pid of this.#markers.keys()) if (!living.has(pid)) this.#markers.delete(pid)
    return found
  }

  /** @param {Omit<ProcessRow, 'markers'>} row */
  #markersOf({ pid, parent, start, zombie }) {
    const seen = this.#markers.get(pid)
    if (seen?.start === start) return seen.markers
    if (zombie || Number(start) < this.#earliest) return []
    const environment = readProc(`/proc/${pid}/environ`)
    const inEnvironment = markerInEnvironment.exec(environment ?? '')?.[1]
    const limit = rttimeIn(readProc(`/proc/${pid}/limits`) ?? '')
    const markers = [inEnvironment, limit].flatMap((mark) => (mark === undefined || mark === 'unlimited' ? [] : [mark]))
    // Not to be remembered: nothing is to be seen between two programs, and a child of this process may not be its own yet.
    const hasEnvironment = environment !== undefined && environment !== ''
    const isFinal = hasEnvironment && (markers.length > 0 || parent !== process.pid)
    if (isFinal) this.#markers.set(pid, { start, markers })
    return markers
  }
}

/**
 * The live processes of a tree: the leader's session, whoever carries the marker, whoever was seen in the tree before, and the
 * descendants and sessions of all these. A pid that was used again for another process is not among them.
 * @param {ProcessRow[]} table
 * @param {TreeIdentity} tree
 * @param {ReadonlyMap<number, string>} [known] pid → start time of processes seen in the tree before
 * @returns {ProcessRow[]}
 */
export function membersOf(table, tree, known = new Map()) {
  // While a session has members the kernel gives its number to nobody: another process of that pid means the session is gone.
  const reused = table.some((row) => row.pid === tree.pid && row.start !== tree.start)
  const sessions = new Set(reused ? [] : [tree.pid])
  /** @type {Map<number, ProcessRow>} */
  const members = new Map()
  for (let before = -1; before !== members.size;) {
    before = members.size
    for (const row of table) {
      if (row.zombie || members.has(row.pid)) continue
      const isMember =
        row.markers.includes(tree.marker) ||
        known.get(row.pid) === row.start ||
        sessions.has(row.session) ||
        members.has(row.parent)
      if (!isMember) continue
      members.set(row.pid, row)
      if (row.session === row.pid) sessions.add(row.session)
    }
  }
  return [...members.values()]
}

/**
 * Signals a process or, negative, a group; one that is gone or not ours is passed over.
 * @param {number} target
 * @param {NodeJS.Signals} signal
 */
export function sendSignal(target, signal) {
  try {
    process.kill(target, signal)
  } catch (error) {
    const code = /** @type {NodeJS.ErrnoException} */ (error).code
    if (code !== 'ESRCH' && code !== 'EPERM') throw error
  }
}
