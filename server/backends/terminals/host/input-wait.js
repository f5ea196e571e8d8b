import { foregroundGroup, inspectForeground } from './foreground.js'

/** @import { WaitReason } from '../terminals.ts' */
/** @import { PtyLimits } from '../messages.ts' */
/** @import { Foreground } from './foreground.js' */

/**
 * What a wait sees of its terminal: the shell, what came of it, and what is still to be written.
 * @typedef {object} Watched
 * @property {number} pid
 * @property {number | undefined} shell
 * @property {string} tty
 * @property {number} marks prompt marks so far
 * @property {boolean} isAtPrompt after the last of them nothing came but the prompt
 * @property {number} total bytes of output so far
 * @property {number} lastOutputAt
 * @property {boolean} isWriting
 */

/**
 * One wait for a terminal to be done with what it was sent (backends.md §5.2). What was seen before it began is no evidence.
 */
export class InputWait {
  /** @type {Promise<WaitReason>} */
  done
  /** @type {(reason: WaitReason) => void} */
  #resolve = () => {}
  #startedAt = performance.now()
  #writtenAt = performance.now()
  #marks
  #before
  /** The shell or program that waits now is not the one that waited before, or was seen to have gone on. */
  #isNewWait = false
  #lastTotal = -1
  #timer

  /**
   * @param {Watched} terminal
   * @param {PtyLimits} limits
   * @param {{ isStart: boolean }} options a start is not over before there was output
   */
  constructor(terminal, limits, { isStart }) {
    this.terminal = terminal
    this.limits = limits
    this.isStart = isStart
    this.#marks = terminal.marks
    this.#before = isStart ? undefined : inspectForeground(terminal.pid, terminal.tty)
    this.done = new Promise((resolve) => (this.#resolve = resolve))
    this.#timer = setInterval(() => this.#look(), limits.pollMs)
  }

  /** Only `end` is the end of it from now on. */
  stop() {
    clearInterval(this.#timer)
  }

  /** @param {WaitReason} reason */
  end(reason) {
    this.stop()
    this.#resolve(reason)
  }

  #look() {
    const { terminal, limits } = this
    const now = performance.now()
    if (terminal.isWriting) this.#writtenAt = now
    else if (this.#isReady(now)) return this.end('stdin_read')
    else if (this.#isIdle(now)) return this.end('inferred_idle')
    if (now - this.#startedAt >= limits.timeoutMs) this.end('timeout')
  }

  /** @param {number} now */
  #isReady(now) {
    const { pid, shell, tty, marks, isAtPrompt, total } = this.terminal
    if (marks > this.#marks && isAtPrompt && foregroundGroup(pid) === shell) {
      // A shell that has input waiting goes on at once: only one that stays at its prompt has taken all of it.
      if (this.#lastTotal === total) return true
      this.#lastTotal = total
    } else this.#lastTotal = -1
    const foreground = inspectForeground(pid, tty)
    if (foreground === undefined) return false
    this.#isNewWait ||= isNewWait(this.#before, foreground)
    return foreground.waiting.size > 0 && this.#isNewWait && now - this.#startedAt >= this.limits.inputWaitMs
  }

  /** @param {number} now */
  #isIdle(now) {
    const { pid, shell, marks, total, lastOutputAt } = this.terminal
    if (this.isStart && total === 0) return false
    const { idleMs, idleGraceMs } = this.limits
    const grace = marks > this.#marks && foregroundGroup(pid) !== shell ? idleGraceMs : 0
    return now - Math.max(this.#writtenAt, lastOutputAt) >= idleMs + grace
  }
}

/**
 * Whether the foreground was not waiting at some time since: it is another group, nobody in it waits, or a thread that does has
 * been awake in between, as the kernel counts.
 * @param {Foreground | undefined} before
 * @param {Foreground} now
 */
function isNewWait(before, now) {
  if (before === undefined || before.group !== now.group || now.waiting.size === 0) return true
  return [...now.waiting].some(([thread, switches]) => before.waiting.get(thread) !== switches)
}
