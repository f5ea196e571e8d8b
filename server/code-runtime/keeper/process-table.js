import { readFileSync, readdirSync, statSync } from 'node:fs'

/** Linux counts processor time for programs in hundredths of a second, whatever the kernel's own clock. */
const msPerTick = 10
const bytesPerPage = pageSize()

/**
 * One process as `/proc` tells. `cpuMs` includes the children that it has waited for; `start` tells a process from a later one of the
 * same id.
 * @typedef {{ start: string, cpuMs: number, rssBytes: number }} ProcessFacts
 */

/** @param {number} pid @returns {ProcessFacts | undefined} undefined when it is gone */
export function factsOf(pid) {
  const text = read(`/proc/${pid}/stat`)
  if (text === undefined) return undefined
  // The name, in parentheses, may itself hold anything.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  let ticks = 0
  for (let index = 11; index <= 14; index += 1) ticks += Number(fields[index])
  return { start: fields[19] ?? '', cpuMs: ticks * msPerTick, rssBytes: Number(fields[21]) * bytesPerPage }
}

/** A process and all its descendants, as far as the kernel lists children (CONFIG_PROC_CHILDREN). @param {number} root */
export function treeOf(root) {
  const pids = [root]
  for (let at = 0; at < pids.length && pids.length < 4_096; at += 1) {
    for (const task of list(`/proc/${pids[at]}/task`)) {
      const children = read(`/proc/${pids[at]}/task/${task}/children`)
      if (children) for (const pid of children.trim().split(' ')) if (pid !== '') pids.push(Number(pid))
    }
  }
  return pids
}

/** The children of a process's main thread, as far as the kernel lists them. @param {number} pid @returns {number[]} */
export function childrenOf(pid) {
  const children = read(`/proc/${pid}/task/${pid}/children`)
  return children ? children.trim().split(' ').filter(Boolean).map(Number) : []
}

/** The processes of a user. @param {number} uid @returns {number[]} */
export function processesOfUser(uid) {
  return list('/proc')
    .filter((name) => /^\d+$/.test(name) && ownerOf(name) === uid)
    .map(Number)
}

/** @param {string} pid */
function ownerOf(pid) {
  try {
    return statSync(`/proc/${pid}`).uid
  } catch {
    return undefined
  }
}

/** @param {string} path */
function read(path) {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return undefined
  }
}

/** @param {string} path */
function list(path) {
  try {
    return readdirSync(path)
  } catch {
    return []
  }
}

function pageSize() {
  const pages = Number(read('/proc/self/statm')?.split(' ')[1])
  // Both numbers move, so their ratio is only near to it.
  return pages > 0 ? 2 ** Math.round(Math.log2(process.memoryUsage.rss() / pages)) : 4_096
}
