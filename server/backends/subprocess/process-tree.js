import { closeSync, statSync } from 'node:fs'
import { execa } from 'execa'
import { openInputFile } from './input-file.js'
import { LiveFeed } from './live-feed.js'
import { markedCommand } from './marked-command.js'
import { OutputCollector } from './output-collector.js'
import { takeOutputFifo } from './output-fifo.js'
import { OutputPipe } from './output-pipe.js'
import { LOOKS_UNTIL_GONE, membersOf, processRow, sendSignal } from './process-table.js'

/** @import { FromHost, ProcessRow, StreamName, TailMap, HostSpec, TreeIdentity } from './messages.ts' */

/**
 * One process tree, in the process that owns it: its start, its output, and the ladder that ends it (backends.md §2).
 *
 *     start ─► running ─► leader ended ─► settled (output complete, or drainMs over) ─► gone
 *                 │ terminate: SIGTERM ── graceMs ──► SIGKILL until nothing is left ─────▲
 *
 * It is closed, and forgotten, when it is gone and all its output was taken.
 */
export class ProcessTree {
  isGone = false
  isEnding = false
  /** @type {TreeIdentity | undefined} undefined until it runs */
  identity
  #leaderEnded = false
  #settled = false
  #isKilling = false
  #emptyLooks = 0
  /** @type {Map<number, string>} */
  #known = new Map()
  /** @type {NodeJS.Timeout | undefined} */
  #killTimer
  /** @type {Partial<Record<StreamName, OutputCollector>>} */
  #collectors = {}
  /** @type {Partial<Record<StreamName, OutputPipe>>} */
  #pipes = {}
  /** @type {Partial<Record<StreamName, import('node:stream').Readable>>} what is read for the collectors */
  #sources = {}
  /** @type {Set<StreamName>} */
  #open = new Set()
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #process
  /** @type {(() => void) | undefined} */
  #settle

  /**
   * @param {HostSpec} spec
   * @param {{ post: (message: FromHost) => void, table: () => ProcessRow[], watch: (tree: ProcessTree) => void }} host
   */
  constructor(spec, host) {
    this.spec = spec
    this.host = host
    this.feed = new LiveFeed(spec.liveBytesPerSecond, (text) => host.post({ type: 'live', id: spec.id, text }))
  }

  start() {
    const { cwd, stdin, id, marker, marksLimits } = this.spec
    if (!isDirectory(cwd)) return this.#fail(`the working directory ${JSON.stringify(cwd)} is not there`)
    const { argv, env } = marksLimits ? markedCommand({ ...this.spec, mark: marker }) : this.spec
    const [file, ...args] = argv
    const fifos = { stdout: this.#fifoFor('stdout'), stderr: this.#fifoFor('stderr') }
    const used = [fifos.stdout, fifos.stderr].filter((fifo) => fifo !== undefined)
    const drop = () => used.forEach(({ stream }) => stream.destroy())
    const data = typeof stdin === 'object' ? stdin.data : undefined
    const inputFile = data === undefined ? undefined : openInputFile(data)
    let subprocess
    try {
      subprocess = execa(file, args, {
        cwd,
        env,
        extendEnv: false,
        ...(data !== undefined && inputFile === undefined ? { input: data } : { stdin: asStdio(inputFile ?? stdin) }),
        stdout: asStdio(fifos.stdout?.writer ?? this.spec.stdout),
        stderr: asStdio(fifos.stderr?.writer ?? this.spec.stderr),
        detached: true,
        cleanup: false,
        buffer: false,
        reject: false
      })
    } catch (error) {
      drop()
      throw error
    } finally {
      for (const { writer } of used) closeSync(writer)
      if (inputFile !== undefined) closeSync(inputFile)
    }
    const { pid } = subprocess
    if (pid === undefined) {
      drop()
      void subprocess.then((result) => this.#fail(result.originalMessage ?? 'it could not be started'))
      return
    }
    this.#process = subprocess
    this.identity = { pid, marker, start: processRow(pid)?.start ?? '' }
    this.host.post({ type: 'started', id, pid, start: this.identity.start })
    this.#attach('stdout', fifos.stdout?.stream ?? subprocess.stdout)
    this.#attach('stderr', fifos.stderr?.stream ?? subprocess.stderr)
    // A broken pipe is told to the writer by the callback of its write.
    subprocess.stdin?.on('error', () => {})
    subprocess.once('exit', (exitCode, signal) => this.#onLeaderEnd(exitCode, signal))
    void subprocess.catch(() => {})
  }

  /** @param {StreamName} name */
  #fifoFor(name) {
    return this.spec[name] === 'inherit' ? undefined : takeOutputFifo()
  }

  /** @param {string} reason */
  #fail(reason) {
    this.isGone = true
    this.host.post({ type: 'failed', id: this.spec.id, message: reason })
  }

  /**
   * @param {StreamName} name
   * @param {import('node:stream').Readable | null | undefined} stream
   */
  #attach(name, stream) {
    const mode = this.spec[name]
    if (stream == null || mode === 'inherit') return
    this.#open.add(name)
    if (mode === 'pipe') this.#pipes[name] = new OutputPipe(this.spec.id, name, stream, this.host.post)
    stream.on('error', () => stream.destroy())
    stream.once('close', () => {
      this.#open.delete(name)
      if (this.#open.size === 0) this.#settleNow()
      this.#closeIfOver()
    })
    if (mode === 'pipe') return
    const collector = new OutputCollector(mode)
    this.#collectors[name] = collector
    this.#sources[name] = stream
    stream.on('data', (chunk) => {
      collector.write(chunk)
      if (this.#settled) slowDown(stream)
      else if (this.spec.liveBytesPerSecond > 0) this.feed.write(name, chunk)
    })
  }

  /** @param {number | null} exitCode @param {NodeJS.Signals | null} signal */
  #onLeaderEnd(exitCode, signal) {
    this.#leaderEnded = true
    this.#settle = () => {
      this.#settled = true
      clearTimeout(drain)
      this.feed.end()
      /** @type {TailMap} */
      const tails = {}
      for (const name of /** @type {const} */ (['stdout', 'stderr'])) {
        const tail = this.#collectors[name]?.seal()
        if (tail) tails[name] = tail
      }
      this.host.post({ type: 'settled', id: this.spec.id, exitCode, signal, tails })
    }
    // Timers run before reads: a busy host must still take what already waits in the pipe.
    const drain = setTimeout(() => setImmediate(() => setImmediate(() => this.#settleNow())), this.spec.drainMs)
    if (this.#open.size === 0) this.#settleNow()
    this.host.watch(this)
  }

  #settleNow() {
    const settle = this.#settle
    this.#settle = undefined
    settle?.()
  }

  /** @param {StreamName} name @param {number} offset */
  read(name, offset) {
    // The collectors have given their bytes up: who asks gets them with the message that said so, which is there before this answer.
    if (this.#settled) return undefined
    return this.#collectors[name]?.tailFrom(offset)
  }

  /** @param {StreamName} name @param {number} bytes */
  taken(name, bytes) {
    this.#pipes[name]?.taken(bytes)
  }

  /** @param {Uint8Array | null} data */
  writeStdin(data) {
    const stdin = this.#process?.stdin
    const id = this.spec.id
    if (stdin == null || stdin.destroyed) {
      this.host.post({ type: 'stdin-taken', id, ...(data === null ? {} : { error: 'the process reads no more' }) })
    } else if (data === null) {
      stdin.end(() => this.host.post({ type: 'stdin-taken', id }))
    } else {
      stdin.write(data, (error) =>
        this.host.post({ type: 'stdin-taken', id, ...(error ? { error: error.message } : {}) })
      )
    }
  }

  terminate() {
    if (this.isGone || this.isEnding || this.identity === undefined) return
    this.isEnding = true
    this.signal('SIGTERM', this.host.table())
    // Outlives the leader on purpose: a descendant that ignores SIGTERM is still ended.
    this.#killTimer = setTimeout(() => {
      this.#isKilling = true
      this.signal('SIGKILL', this.host.table())
    }, this.spec.graceMs)
    this.host.watch(this)
  }

  /**
   * Signals all that is left.
   * @param {NodeJS.Signals} signal
   * @param {ProcessRow[]} table looked at before anything died: a process that left the session without its marker is known by its parent only
   * @returns {number} how many those were
   */
  signal(signal, table) {
    if (this.isGone || this.identity === undefined) return 0
    const members = this.#look(table)
    // While the leader is not collected its number is nobody else's, so the whole group can be hit at once, newcomers too.
    const hitGroup = this.#leaderEnded ? undefined : this.identity.pid
    if (hitGroup !== undefined) sendSignal(-hitGroup, signal)
    for (const row of members) if (row.group !== hitGroup) sendSignal(row.pid, signal)
    return members.length
  }

  /** @param {ProcessRow[]} table */
  #look(table) {
    if (this.identity === undefined) return []
    const members = membersOf(table, this.identity, this.#known)
    this.#known = new Map(members.map((row) => [row.pid, row.start]))
    return members
  }

  /**
   * A look at the process table, taken after the leader ended or the ladder began: is anything left?
   * @param {ProcessRow[]} table
   */
  observe(table) {
    if (this.isGone || this.identity === undefined) return
    const members = this.#look(table)
    if (members.length > 0 || !this.#leaderEnded) {
      this.#emptyLooks = 0
      // Those born since the last look.
      if (this.#isKilling) for (const row of members) sendSignal(row.pid, 'SIGKILL')
      return
    }
    this.#emptyLooks++
    if (!this.#settled || this.#emptyLooks < LOOKS_UNTIL_GONE) return
    this.isGone = true
    clearTimeout(this.#killTimer)
    for (const name of /** @type {const} */ (['stdout', 'stderr'])) {
      // Held by a process that is not ours: nobody would ever close it.
      this.#sources[name]?.destroy()
    }
    this.#process?.stdin?.destroy()
    this.host.post({ type: 'gone', id: this.spec.id })
    this.#closeIfOver()
  }

  #closeIfOver() {
    if (this.isGone && this.#open.size === 0) this.host.post({ type: 'closed', id: this.spec.id })
  }
}

/**
 * Its types know of no descriptor.
 * @param {number | HostSpec['stdin' | StreamName]} stream
 */
const asStdio = (stream) => (/** @type {'pipe' | 'inherit'} */ (typeof stream === 'object' ? 'pipe' : stream))

/** @param {string} path */
function isDirectory(path) {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
}

/**
 * The command is told, but a descendant goes on writing: it is read on, for it would die of a closed pipe, but at about 1 MB/s.
 * @param {import('node:stream').Readable} stream
 */
function slowDown(stream) {
  stream.pause()
  setTimeout(() => stream.resume(), 60).unref()
}
