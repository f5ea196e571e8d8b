import { spawn } from 'node:child_process'
import { StringDecoder } from 'node:string_decoder'
import { FrameReader, encodeFrame, maxFrameBytes } from '../protocol.js'
import { childrenOf, factsOf, processesOfUser, treeOf } from './process-table.js'
import { readFrames } from './read-frames.js'

/** @import { Launch } from './messages.ts' */
/** @import { World, WorldListener } from './world.ts' */

/** How long what an ended process wrote is waited for: a child of it may hold the pipes open for ever. */
const drainMs = 100
/** How long what has started a namespace is waited for. */
const namespaceMs = 500
/** A program that has closed its pipe says nothing any more; of a thread that has ended, its relay says so sooner. */
const silentMs = 5_000
/** Walking the tree costs a dozen small reads a process; their figures alone cost one. */
const walkEveryMs = 100
/** Replies that a world does not read pile up in the server. */
const maxUnreadBytes = 2 * maxFrameBytes
/** What the relay says is short; the program may write there too. */
const maxRelayFrameBytes = 1024 * 1024
/** A thread's end is told in two frames. */
const mostLastFrames = 2
/** How busy it is, a relay tells half as often at most, save for what a busy machine has kept back. */
const leastReportMs = 25
const reportsAhead = 100
const busyReport = /^\["busy",(\d+(?:\.\d+)?)\]$/
/** Where V8 begins its report of an out-of-memory crash, which names the server's files. */
const crashReport = /\n?(<--- Last few GCs --->|#\n# Fatal |FATAL ERROR: )/

/** A world that is a process, with its own group, and its own user and PID namespace where that is to be had. @implements {World} */
export class ChildWorld {
  #child
  #launch
  #user
  #maxBytes
  #room
  #busyMs = 0
  #busyReports = 0
  #openedAt = performance.now()
  /** The processes of the world that were seen, with their start. @type {Map<number, string>} */
  #seen = new Map()
  #walkedAt = 0
  #hasCrashed = false
  #isKilled = false
  hasEnded = false
  /** @type {Promise<void>} */
  #ended

  /**
   * @param {WorldListener} listener @param {Launch} launch @param {number | undefined} user @param {number} maxOutputBytes
   * @param {() => Promise<void> | undefined} room what all that it says waits for
   */
  constructor(listener, launch, user, maxOutputBytes, room) {
    this.listener = listener
    this.#room = room
    this.#launch = launch
    this.#user = user
    this.#maxBytes = Math.max(maxFrameBytes, maxOutputBytes + 4_096)
    this.#child = spawn(launch.command, launch.args, {
      cwd: launch.cwd,
      env: {},
      detached: true,
      stdio: [
        'ignore',
        'pipe',
        'pipe',
        'pipe',
        'pipe',
        ...(launch.input === undefined ? [] : [/** @type {const} */ ('pipe')])
      ],
      ...(user === undefined ? {} : { uid: user, gid: user })
    })
    this.#give(launch.input)
    this.#ended = new Promise((resolve) => {
      /** @param {number | null} code @param {string | null} signal @param {string} [detail] */
      const conclude = (code, signal, detail) => {
        if (this.hasEnded) return
        this.hasEnded = true
        for (const stream of this.#child.stdio) stream?.destroy()
        this.listener.ended({ code, signal, detail: this.#hasCrashed ? 'it ran out of memory' : detail })
        resolve()
      }
      this.#child.on('error', (error) => {
        if (this.#child.pid === undefined) conclude(null, null, error.message)
      })
      this.#child.on('exit', (code, signal) => {
        this.#killAll()
        setTimeout(conclude, drainMs, code, signal).unref()
      })
      this.#child.on('close', conclude)
    })
    this.#listen()
  }

  /** @param {string} frame */
  send(frame) {
    const pipe = this.#pipe
    pipe?.write(encodeFrame(frame))
    if (pipe && pipe.writableLength > maxUnreadBytes) this.#killAll()
  }

  /** @param {boolean} [isQuick] */
  usage(isQuick = false) {
    const now = performance.now()
    if (!isQuick && now - this.#walkedAt >= walkEveryMs) {
      this.#walkedAt = now
      this.#walk()
    }
    let cpuMs = 0
    let rssBytes = 0
    let processes = 0
    for (const [pid, start] of this.#seen) {
      const facts = factsOf(pid)
      if (facts?.start !== start) {
        this.#seen.delete(pid)
        continue
      }
      processes += 1
      cpuMs += facts.cpuMs
      rssBytes += facts.rssBytes
    }
    return { cpuMs, busyMs: this.#busyMs, rssBytes, processes }
  }

  async end() {
    if (!this.#launch.containment.pidNamespace && !this.hasEnded) this.#walk()
    this.#killAll()
    await this.#ended
  }

  get #pipe() {
    return /** @type {import('node:net').Socket | null | undefined} */ (this.#child.stdio[3])
  }

  /** What the world's own main thread says, if it has one that is not the program's. */
  get #relayPipe() {
    return /** @type {import('node:net').Socket | null | undefined} */ (this.#child.stdio[4])
  }

  /** @param {string | undefined} input in base64 */
  #give(input) {
    const pipe = /** @type {(import('node:net').Socket | null | undefined)[]} */ (
      /** @type {readonly unknown[]} */ (this.#child.stdio)
    )[5]
    // Of a command that has not started nobody reads it.
    pipe?.on('error', () => {})
    pipe?.end(Buffer.from(input ?? '', 'base64'))
  }

  #listen() {
    const { stdout, stderr } = this.#child
    // How the program's thread ended is told by another one: all that it said itself comes first.
    /** @type {string[]} */
    const last = []
    this.#read(this.#pipe, this.#maxBytes, (frame) => this.listener.frame(frame))
    this.#read(this.#relayPipe, maxRelayFrameBytes, (frame) => {
      if (this.#isBusyReport(frame)) return
      // More than a relay says is of the program, and goes the way of all its frames.
      if (this.#pipe?.destroyed === false && last.length < mostLastFrames) last.push(frame)
      else this.listener.frame(frame)
    })
    this.#pipe?.on('close', () => {
      for (const frame of last) this.listener.frame(frame)
      setTimeout(() => this.hasEnded || this.#killAll(), silentMs).unref()
    })
    for (const [name, stream] of /** @type {const} */ ([
      ['stdout', stdout],
      ['stderr', stderr]
    ])) {
      const decoder = new StringDecoder('utf8')
      stream?.on('data', (chunk) => this.#raw(name, decoder.write(chunk)))
    }
  }

  /** @param {import('node:net').Socket | null | undefined} pipe @param {number} maxBytes of a frame @param {(frame: string) => void} take */
  #read(pipe, maxBytes, take) {
    if (!pipe) return
    const reader = new FrameReader(maxBytes, (body) => body.toString())
    readFrames(pipe, reader, take, () => this.#killAll(), this.#room)
    // A world that is being ended resets its end; that it ended is told by the process.
    pipe.on('error', () => {})
  }

  /** Whether a frame of the relay tells the busy time, and is not one too many. @param {string} frame */
  #isBusyReport(frame) {
    const ms = busyReport.exec(frame)?.[1]
    if (ms === undefined || this.#busyReports > reportsAhead + (performance.now() - this.#openedAt) / leastReportMs)
      return false
    this.#busyReports += 1
    // What comes of it is charged only where it is more than the processor time.
    this.#busyMs = Math.max(this.#busyMs, Number(ms))
    return true
  }

  /** @param {'stdout' | 'stderr'} stream @param {string} text */
  #raw(stream, text) {
    const crash = stream === 'stderr' ? crashReport.exec(text) : null
    if (!this.#hasCrashed) this.listener.raw(stream, crash === null ? text : text.slice(0, crash.index))
    if (crash !== null) this.#hasCrashed = true
  }

  #walk() {
    const { pid } = this.#child
    if (pid === undefined) return
    for (const each of treeOf(pid)) {
      const facts = factsOf(each)
      if (facts !== undefined) this.#seen.set(each, facts.start)
    }
  }

  /**
   * A namespace dies with its first process, and whoever started that waits for it, and ends. Killed together, the first one would be left,
   * ended, to an init of the system that there may not be.
   * @param {number} pid
   */
  #killNamespace(pid) {
    const first = this.#isKilled ? [] : childrenOf(pid)
    this.#isKilled = true
    if (first.length === 0) return kill(-pid)
    for (const each of first) kill(each)
    setTimeout(() => this.hasEnded || kill(-pid), namespaceMs).unref()
  }

  /**
   * The group dies at once. Without a PID namespace, whoever left the group is found by its user, or at least among the processes that
   * were seen.
   */
  #killAll() {
    const { pid } = this.#child
    if (pid === undefined) return
    if (this.#launch.containment.pidNamespace) return this.#killNamespace(pid)
    kill(-pid)
    if (this.#user === undefined) {
      for (const [seen, start] of this.#seen) if (factsOf(seen)?.start === start) kill(seen)
      return
    }
    // One that forks while it is looked for is found the next time.
    for (let pass = 0; pass < 10; pass += 1) {
      const left = processesOfUser(this.#user)
      if (left.length === 0) return
      for (const each of left) kill(each)
    }
  }
}

/** @param {number} pid */
function kill(pid) {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It is gone already.
  }
}
