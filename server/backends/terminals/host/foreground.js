import { closeSync, openSync, readdirSync, readFileSync, readlinkSync, readSync } from 'node:fs'

/** What a system call that may wait for input is, by its number: on x86-64 and on arm64. */
const systemCalls = new Map(
  process.arch === 'arm64'
    ? [
        [63, 'read'],
        [65, 'read'],
        [72, 'select'],
        [73, 'poll'],
        [22, 'epoll'],
        [441, 'epoll']
      ]
    : [
        [0, 'read'],
        [19, 'read'],
        [23, 'select'],
        [270, 'select'],
        [7, 'poll'],
        [271, 'poll'],
        [232, 'epoll'],
        [281, 'epoll'],
        [441, 'epoll']
      ]
)

const POLL_ENTRY_BYTES = 8
const MAX_POLLED = 256
/** Processes of one terminal that are looked at: a fork bomb must not stop the others. */
const MAX_PROCESSES = 512

/** @typedef {{ group: number, waiting: Map<string, string> }} Foreground `waiting`: threads that wait for input → how often they slept */

/**
 * What runs in the foreground of a terminal, seen through its shell; undefined when nothing does (backends.md §2).
 * @param {number} shell
 * @returns {number | undefined}
 */
export function foregroundGroup(shell) {
  const group = Number(statFields(shell)?.[5] ?? -1)
  return group > 0 ? group : undefined
}

/**
 * The foreground with the threads that are proven to wait for input of the terminal: blocked in a read of it, or in a wait that
 * includes their standard input, which it is. What cannot be seen counts as not waiting.
 * @param {number} shell
 * @param {string} tty path of the terminal
 * @returns {Foreground | undefined}
 */
export function inspectForeground(shell, tty) {
  const group = foregroundGroup(shell)
  if (group === undefined) return undefined
  /** @type {Map<string, string>} */
  const waiting = new Map()
  for (const pid of descendantsOf(shell)) {
    if (Number(statFields(pid)?.[2]) !== group) continue
    for (const thread of entriesOf(`/proc/${pid}/task`)) {
      if (!waitsForInput(`/proc/${pid}/task/${thread}`, `/proc/${pid}`, tty)) continue
      const status = read(`/proc/${pid}/task/${thread}/status`) ?? ''
      waiting.set(`${pid}.${thread}`, /^voluntary_ctxt_switches:\s*(\d+)/m.exec(status)?.[1] ?? '')
    }
  }
  return { group, waiting }
}

/** @param {string} thread @param {string} program @param {string} tty */
function waitsForInput(thread, program, tty) {
  const [number, ...parts] = (read(`${thread}/syscall`) ?? '').split(' ')
  const call = systemCalls.get(Number(number || -1))
  if (call === undefined) return false
  const words = parts.map(Number)
  const [first = 0, second = 0] = words
  if (call === 'read') return isTerminal(`${program}/fd/${first}`, tty)
  if (!isTerminal(`${program}/fd/0`, tty)) return false
  if (call === 'epoll')
    return /^tfd:\s+0 events:\s+[0-9a-f]*[13579bdf]\s/m.test(read(`${program}/fdinfo/${first}`) ?? '')
  if (call === 'select') return second !== 0 && first > 0 && ((memoryOf(program, second, 1)?.[0] ?? 0) & 1) === 1
  const entries = memoryOf(program, first, Math.min(second, MAX_POLLED) * POLL_ENTRY_BYTES)
  for (let at = 0; entries !== undefined && at < entries.length; at += POLL_ENTRY_BYTES) {
    if (entries.readInt32LE(at) === 0 && (entries.readInt16LE(at + 4) & 1) === 1) return true
  }
  return false
}

/** @param {string} link @param {string} tty */
function isTerminal(link, tty) {
  try {
    const target = readlinkSync(link)
    return target === tty || target === '/dev/tty'
  } catch {
    return false
  }
}

/** @param {string} program @param {number} address @param {number} length */
function memoryOf(program, address, length) {
  const bytes = Buffer.alloc(length)
  let descriptor
  try {
    descriptor = openSync(`${program}/mem`, 'r')
    return readSync(descriptor, bytes, 0, length, address) === length ? bytes : undefined
  } catch {
    return undefined
  } finally {
    if (descriptor !== undefined) closeSync(descriptor)
  }
}

/** The process and what it started, as far as that is still linked to it. @param {number} root */
function descendantsOf(root) {
  const found = [root]
  for (let at = 0; at < found.length && found.length < MAX_PROCESSES; at++) {
    for (const thread of entriesOf(`/proc/${found[at]}/task`)) {
      const children = read(`/proc/${found[at]}/task/${thread}/children`) ?? ''
      found.push(...children.split(' ').filter(Boolean).map(Number))
    }
  }
  return found
}

/** The fields of a process's stat after its name: state, parent, group, session, terminal, foreground group. @param {number} pid */
function statFields(pid) {
  const stat = read(`/proc/${pid}/stat`)
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')
}

/** @param {string} path */
function entriesOf(path) {
  try {
    return readdirSync(path)
  } catch {
    return []
  }
}

/** @param {string} path */
function read(path) {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    // The process ended meanwhile, or may not be looked at.
    return undefined
  }
}
