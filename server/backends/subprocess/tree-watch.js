import { ProcessTable, processRow } from './process-table.js'

/** @import { ProcessTree } from './process-tree.js' */

/**
 * Milliseconds between looks: while something is being ended, and while trees whose leader ended by itself may have left
 * something. For the latter nobody waits, and nearly all of them have left nothing.
 */
const ENDING_MS = 20
const IDLE_MIN_MS = 500
const IDLE_MAX_MS = 4000

/**
 * Finds out when trees are gone. One look at the process table serves all trees that wait, for it costs about 0.1 ms a process of
 * the machine; the looks take at most a fifth of the host's time.
 */
export class TreeWatch {
  /** @type {Set<ProcessTree>} */
  #watched = new Set()
  /** @type {NodeJS.Timeout | undefined} */
  #timer
  #dueAt = Infinity
  #idleMs = IDLE_MIN_MS
  #lastCostMs = 0
  // Older processes than the server are nobody's descendants of ours.
  #table = new ProcessTable({ since: processRow(process.pid)?.start ?? '0' })

  /** @param {ProcessTree} tree */
  add = (tree) => {
    this.#watched.add(tree)
    this.#idleMs = IDLE_MIN_MS
    this.#plan()
  }

  /** The process table as it is now. */
  table = () => {
    const before = performance.now()
    const table = this.#table.look()
    this.#lastCostMs = performance.now() - before
    return table
  }

  #plan() {
    if (this.#watched.size === 0) return
    const isEnding = [...this.#watched].some((tree) => tree.isEnding)
    const wait = Math.max(isEnding ? ENDING_MS : this.#idleMs, 4 * this.#lastCostMs)
    const dueAt = performance.now() + wait
    if (dueAt >= this.#dueAt) return
    clearTimeout(this.#timer)
    this.#dueAt = dueAt
    this.#timer = setTimeout(() => this.#tick(), wait)
  }

  #tick() {
    this.#dueAt = Infinity
    const table = this.table()
    for (const tree of this.#watched) {
      tree.observe(table)
      if (tree.isGone) this.#watched.delete(tree)
    }
    this.#idleMs = Math.min(IDLE_MAX_MS, this.#idleMs * 2)
    this.#plan()
  }
}
