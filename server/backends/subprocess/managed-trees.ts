import { createHash, randomBytes, randomInt } from 'node:crypto'
import { rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads'
import { childEnvironment } from './environment.ts'
import type { FromThread, StreamName, Tail, ThreadOutput, ThreadSpec, ToThread } from './messages.ts'
import { LOOKS_UNTIL_GONE, membersOf, processRow, ProcessTable, sendSignal, TREE_VARIABLE } from './process-table.js'
import { resolveExecutable } from './resolve-executable.ts'
import { type OutputMode, type ProcessHandle, SpawnError, type SpawnSpec, type Subprocesses } from './subprocess.ts'
import { TreeHandle } from './tree-handle.ts'
import { treeMark } from './tree-mark.js'

/** The longest delay that a timer takes. */
const MAX_TIMER_MS = 2_147_483_647
/** What disposal waits beyond a tree's own grace: a process in the kernel may not even heed SIGKILL. */
const DISPOSE_SLACK_MS = 5_000
/** Looks for processes to kill while the server's process exits; each takes some 10 ms. */
const MAX_LAST_LOOKS = 5

export interface ManagedTreesOptions {
  /** Names the server's processes: a later server on the same data directory can end what this one left when it died. */
  dataDirectory: string
  /** Where the private directory for spilled output is made; the system's temporary directory by default. */
  spillRoot?: string
}

interface Thread {
  worker: Worker
  port: MessagePort
  /** Shared with the thread: [the server is exiting, a start is under way]. */
  flags: Int32Array
}

/** Subprocesses, owned by a thread of their own (tree-thread.js); here are their handles (backends.md §2). */
export class ManagedTrees implements Subprocesses {
  /** The data directory's number in the marks of trees. */
  readonly #directory: number
  /** The same of the last tree. At first any: another instance in this process counts on its own. */
  #lastTree = randomInt(2 ** 22)
  readonly #start = processRow(process.pid)?.start ?? ''
  readonly #spillDirectory: string
  readonly #live = new Map<number, TreeHandle>()
  readonly #requests = new Map<number, (answer: never) => void>()
  #thread: Thread | undefined
  #nextId = 1
  #disposal: Promise<void> | undefined
  readonly #onProcessExit = () => {
    this.#endNow()
    rmSync(this.#spillDirectory, { recursive: true, force: true })
  }

  constructor({ dataDirectory, spillRoot = tmpdir() }: ManagedTreesOptions) {
    this.#directory = createHash('sha256').update(resolve(dataDirectory)).digest().readUIntBE(0, 3) >>> 6
    this.#spillDirectory = join(spillRoot, `toolwright-output-${process.pid}-${randomBytes(8).toString('hex')}`)
    process.on('exit', this.#onProcessExit)
    // Right away: it takes a while, which the first command should not have to wait for.
    this.#thread = this.#openThread()
  }

  spawn(spec: SpawnSpec): ProcessHandle {
    if (this.#disposal !== undefined) throw new SpawnError('processes are no longer started: the server is stopping')
    checkSpec(spec)
    const id = this.#nextId++
    const marker = treeMark({ directory: this.#directory, server: process.pid, tree: ++this.#lastTree })
    const handle = new TreeHandle(id, marker, spec, { post: (message) => this.#post(message), read: this.#read })
    this.#live.set(id, handle)
    this.#post({ type: 'spawn', spec: this.#threadSpec(id, marker, spec) })
    return handle
  }

  resolveExecutable(command: string, env?: Readonly<Record<string, string | undefined>>, signal?: AbortSignal) {
    return resolveExecutable(command, childEnvironment(env), signal)
  }

  /** Ends what a server that died on the same data directory left running; how many processes that were (reliability.md R8). */
  endStrays(): Promise<number> {
    return this.#ask((request) => ({ type: 'sweep', request, directory: this.#directory }))
  }

  dispose(): Promise<void> {
    this.#disposal ??= this.#disposeOnce()
    return this.#disposal
  }

  async #disposeOnce(): Promise<void> {
    const handles = [...this.#live.values()]
    for (const handle of handles) handle.terminate()
    const ends = handles.map((handle) =>
      handle.waitForExit(AbortSignal.timeout(Math.min(handle.spec.graceMs + DISPOSE_SLACK_MS, MAX_TIMER_MS)))
    )
    const survivors = (await Promise.all(ends)).flatMap((isGone, at) => (isGone ? [] : [handles[at]!]))
    process.off('exit', this.#onProcessExit)
    const thread = this.#thread
    this.#thread = undefined
    await thread?.worker.terminate()
    this.#forgetRequests()
    rmSync(this.#spillDirectory, { recursive: true, force: true })
    if (survivors.length > 0) {
      const errors = survivors.map(({ pid }) => new Error(`the process tree of pid ${pid} could not be ended`))
      throw new AggregateError(errors, 'not every process tree could be ended')
    }
  }

  #threadSpec(id: number, marker: string, spec: SpawnSpec): ThreadSpec {
    const { argv, cwd, stdin, graceMs, drainMs = graceMs, marksLimits = false } = spec
    const env = childEnvironment({ ...spec.env, [TREE_VARIABLE]: marker })
    const [stdout, stderr] = [this.#threadOutput(spec.stdout), this.#threadOutput(spec.stderr)]
    const liveBytesPerSecond = spec.live?.bytesPerSecond ?? 0
    return { id, argv, cwd, env, marker, marksLimits, stdin, stdout, stderr, graceMs, drainMs, liveBytesPerSecond }
  }

  #threadOutput(mode: OutputMode): ThreadOutput {
    if (typeof mode === 'string') return mode
    const { maxBytes, spill } = mode
    if (spill === undefined) return { maxBytes }
    return { maxBytes, spill: { maxBytes: spill.maxBytes, directory: spill.directory ?? this.#spillDirectory } }
  }

  #read = (id: number, stream: StreamName, offset: number): Promise<Tail | undefined> =>
    this.#ask((request) => ({ type: 'read', id, request, stream, offset }))

  #ask<T>(message: (request: number) => ToThread): Promise<T> {
    const request = this.#nextId++
    return new Promise<T>((answer) => {
      this.#requests.set(request, answer)
      this.#post(message(request))
    })
  }

  #answer(request: number, value: unknown): void {
    this.#requests.get(request)?.(value as never)
    this.#requests.delete(request)
  }

  #post(message: ToThread): void {
    // After disposal nobody is left to talk to, and nothing to talk about.
    if (this.#thread === undefined && this.#disposal !== undefined) return this.#forgetRequests()
    const { port } = (this.#thread ??= this.#openThread())
    port.ref()
    port.postMessage(message)
  }

  #openThread(): Thread {
    const { port1: port, port2 } = new MessageChannel()
    const flags = new Int32Array(new SharedArrayBuffer(8))
    const worker = new Worker(new URL('./tree-thread.js', import.meta.url), {
      name: 'processes',
      workerData: { port: port2, flags },
      transferList: [port2],
      env: {},
      execArgv: []
    })
    const thread = { worker, port, flags }
    port.on('message', (message: FromThread) => this.#receive(message))
    worker.once('error', (error) => this.#lose(thread, error))
    worker.once('exit', (code) => this.#lose(thread, new Error(`it ended with code ${code}`)))
    worker.unref()
    port.unref()
    return thread
  }

  #receive(message: FromThread): void {
    if (message.type === 'window') this.#answer(message.request, message.tail)
    else if (message.type === 'swept') this.#answer(message.request, message.ended)
    else if (message.type === 'closed') this.#live.delete(message.id)
    else {
      this.#live.get(message.id)?.receive(message)
      if (message.type === 'live' || message.type === 'chunk') return
      if (message.type === 'failed') this.#live.delete(message.id)
    }
    // Only work whose outcome somebody waits for keeps the server's process alive.
    const handles = [...this.#live.values()]
    const isAwaited = this.#requests.size > 0 || handles.some((handle) => handle.isEnding || !handle.hasSettled)
    if (!isAwaited) this.#thread?.port.unref()
  }

  /** The thread died: nobody watches its processes any more, so they go, and the next spawn opens a new one. */
  #lose(thread: Thread, cause: Error): void {
    if (this.#thread !== thread) return
    this.#endNow()
    this.#thread = undefined
    const error = new SpawnError(`the thread that owns the processes failed: ${cause.message}`, { cause })
    for (const handle of this.#live.values()) handle.fail(error)
    this.#live.clear()
    this.#forgetRequests()
  }

  #forgetRequests(): void {
    for (const request of this.#requests.keys()) this.#answer(request, undefined)
  }

  /** SIGKILL for every live tree, at once and without waiting: the server's process is exiting. */
  #endNow(): void {
    if (this.#thread !== undefined) {
      const { flags, port } = this.#thread
      Atomics.store(flags, 0, 1)
      Atomics.wait(flags, 1, 1, 500)
      for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port)) {
        this.#receive(next.message as FromThread)
      }
    }
    // Also those whose start was never told, since the thread died just then: their marks are known.
    const running = [...this.#live.values()].filter(({ isGone }) => !isGone)
    const table = new ProcessTable({ since: this.#start })
    for (let look = 0, empty = 0; look < MAX_LAST_LOOKS && empty < LOOKS_UNTIL_GONE && running.length > 0; look++) {
      // Looked at before anything dies: some are known by their parent only.
      const rows = table.look()
      const members = running.flatMap(({ pid, start, marker }) => membersOf(rows, { pid, start, marker }))
      if (look === 0) for (const { pid, hasSettled } of running) if (pid > 0 && !hasSettled) sendSignal(-pid, 'SIGKILL')
      for (const row of members) sendSignal(row.pid, 'SIGKILL')
      empty = members.length === 0 ? empty + 1 : 0
    }
  }
}

function checkSpec({ argv, graceMs, drainMs = graceMs, signal }: SpawnSpec): void {
  signal?.throwIfAborted()
  if (argv.length === 0 || argv[0] === '') throw new SpawnError('there is no program to start')
  for (const ms of [graceMs, drainMs]) {
    if (!(ms > 0 && ms <= MAX_TIMER_MS)) throw new RangeError(`not a usable number of milliseconds: ${ms}`)
  }
}
