import { setTimeout as wait } from 'node:timers/promises'
import { readFileSync } from 'node:fs'
import { membersOf, processRow, ProcessTable, sendSignal, TREE_VARIABLE } from '../../subprocess/process-table.js'

/** @import { ProcessRow } from '../../subprocess/messages.ts' */

const LOOK_MS = 20
/** What a process that was sent SIGKILL may take to be gone. */
const KILL_MS = 2_000
const MAX_LAST_LOOKS = 5

/** The variable that tells the processes of one terminal from those of another (backends.md §5.2). */
export const TERMINAL_VARIABLE = 'TOOLWRIGHT_PTY_SESSION_ID'

const terminalInEnvironment = new RegExp(`(?:^|\\0)${TERMINAL_VARIABLE}=([^\\0]*)`)

/** What every process of this host has in its environment, the host too. */
export const hostMarker = process.env[TREE_VARIABLE] ?? ''
const own = { pid: process.pid, start: processRow(process.pid)?.start ?? '', marker: hostMarker }
const table = new ProcessTable({ since: own.start })
/** @type {Map<string, readonly string[]>} */
const terminals = new Map()

/**
 * `pid` leads the session; `shell` is the process that prints the prompt, itself or one that it started.
 * @typedef {{ id: string, pid: number, start: string, shell: number, graceMs: number }} Terminal
 */

/**
 * The process table, with the terminal's id as the only marker of each process that belongs to one.
 * @returns {ProcessRow[]}
 */
function look() {
  const rows = table.look().map((row) => ({ ...row, markers: row.markers.includes(hostMarker) ? terminalOf(row) : [] }))
  const living = new Set(rows.map(keyOf))
  for (const key of terminals.keys()) if (!living.has(key)) terminals.delete(key)
  return rows
}

/** @param {ProcessRow} row */
const keyOf = ({ pid, start }) => `${pid}.${start}`

/** @param {ProcessRow} row @returns {readonly string[]} */
function terminalOf(row) {
  const key = keyOf(row)
  const seen = terminals.get(key)
  if (seen !== undefined) return seen
  let id
  try {
    id = terminalInEnvironment.exec(readFileSync(`/proc/${row.pid}/environ`, 'latin1'))?.[1]
  } catch {
    return []
  }
  if (id === undefined) return []
  // A process that has just been forked still has the environment of this one.
  terminals.set(key, [id])
  return [id]
}

/**
 * Ends the processes of a terminal (backends.md §2): all but the shell first, as it would answer each death with the next command;
 * it is stopped meanwhile. Rejects when some cannot be ended; it can be tried again.
 * @param {Terminal} terminal
 */
export async function endTerminal(terminal) {
  /** @type {Map<number, string>} */
  let known = new Map()
  const members = () => {
    const found = membersOf(look(), { pid: terminal.pid, start: terminal.start, marker: terminal.id }, known)
    known = new Map(found.map((row) => [row.pid, row.start]))
    return found
  }
  const split = () => {
    const rows = members()
    const byPid = new Map(rows.map((row) => [row.pid, row]))
    /** @type {ProcessRow[]} */
    const shells = []
    for (let row = byPid.get(terminal.shell); row !== undefined; row = byPid.get(row.parent)) {
      shells.push(row)
      if (row.pid === terminal.pid) break
    }
    // Gone already, or replaced by something else: there is only the leader.
    if (shells.at(-1)?.pid !== terminal.pid)
      shells.splice(0, Infinity, ...rows.filter(({ pid }) => pid === terminal.pid))
    return { shells, others: rows.filter((row) => !shells.includes(row)) }
  }
  const shells = () => split().shells
  const others = () => split().others

  for (const row of shells()) sendSignal(row.pid, 'SIGSTOP')
  await end(others, ['SIGTERM', 'SIGCONT'], terminal.graceMs)
  // An interactive bash ignores SIGTERM, and ends at SIGHUP.
  await end(shells, ['SIGHUP', 'SIGTERM', 'SIGCONT'], terminal.graceMs)
  await end(members, ['SIGKILL'], KILL_MS)
  const left = members()
  if (left.length > 0) throw new Error(`processes could not be ended: ${left.map(({ pid }) => pid).join(', ')}`)
}

/**
 * @param {() => ProcessRow[]} targets
 * @param {NodeJS.Signals[]} signals
 * @param {number} graceMs
 */
async function end(targets, signals, graceMs) {
  for (const row of targets()) for (const signal of signals) sendSignal(row.pid, signal)
  if (await areGone(targets, graceMs)) return
  const deadline = performance.now() + KILL_MS
  do {
    // Those born since the last look, too.
    for (const row of targets()) sendSignal(row.pid, 'SIGKILL')
  } while (!(await areGone(targets, LOOK_MS)) && performance.now() < deadline)
}

/** @param {() => ProcessRow[]} targets @param {number} withinMs */
async function areGone(targets, withinMs) {
  const deadline = performance.now() + withinMs
  while (targets().length > 0) {
    if (performance.now() >= deadline) return false
    await wait(LOOK_MS)
  }
  return true
}

/** SIGKILL for every process of every terminal, without waiting: the server is gone, or has had enough. */
export function killEverything() {
  for (let count = 0; count < MAX_LAST_LOOKS; count++) {
    const left = membersOf(table.look(), own).filter(({ pid }) => pid !== process.pid)
    for (const row of left) sendSignal(row.pid, 'SIGKILL')
    if (left.length === 0) return
  }
}
