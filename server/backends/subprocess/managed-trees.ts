import { createHash, randomBytes, randomInt } from 'node:crypto'
import { rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { childEnvironment } from './environment.ts'
import { HostProcess } from './host-process.ts'
import { killUntilGone } from './kill-until-gone.js'
import type { FromHost, HostOutput, HostSpec, StreamName, Tail, ToHost, TreeIdentity } from './messages.ts'
import { membersOf, processRow, ProcessTable, sendSignal, TREE_VARIABLE } from './process-table.js'
import { resolveExecutable } from './resolve-executable.ts'
import { endStrays } from './stray-processes.js'
import {
  type OutputMode,
  type ProcessHandle,
  ProcessLostError,
  SpawnError,
  type SpawnSpec,
  type Subprocesses
} from './subprocess.ts'
import { TreeHandle } from './tree-handle.ts'
import { treeMark } from './tree-mark.js'

/** The longest delay that a timer takes. */
const MAX_TIMER_MS = 2_147_483_647
/** What disposal waits beyond a tree's own grace: a process in the kernel may not even heed SIGKILL. */
const DISPOSE_SLACK_MS = 5_000
/** Far more than it ever takes, on the busiest machine: with it go all commands that run. */
const MAX_HOST_SILENCE_MS = 20_000

export interface ManagedTreesOptions {
  /** Names the server's processes: a later server on the same data directory can end what this one left when it died. */
  dataDirectory: string
  /** Where the private directory for spilled output is made; the system's temporary directory by default. */
  spillRoot?: string
  /** How long the process that owns the others may give no sign while it has something to do; then it is replaced. */
  maxHostSilenceMs?: number
}

/**
 * Subprocesses, owned by a process of their own (tree-host.js), which starts with the first of them; here are their handles
 * (backends.md §2). However the server ends, that process ends them.
 */
export class ManagedTrees implements Subprocesses {
  /** The data directory's number in the marks of trees. */
  readonly #directory: number
  /** The same of the last tree. At first any: another instance in this process counts on its own. */
  #lastTree = randomInt(2 ** 22)
  readonly #start = processRow(process.pid)?.start ?? ''
  readonly #spillDirectory: string
  readonly #maxHostSilenceMs: number
  readonly #live = new Map<number, TreeHandle>()
  readonly #requests = new Map<number, (answer: never) => void>()
  #host: HostProcess | undefined
  #nextId = 1
  #disposal: Promise<void> | undefined

  constructor({ dataDirectory, spillRoot = tmpdir(), maxHostSilenceMs = MAX_HOST_SILENCE_MS }: ManagedTreesOptions) {
    this.#maxHostSilenceMs = maxHostSilenceMs
    this.#directory = createHash('sha256').update(resolve(dataDirectory)).digest().readUIntBE(0, 3) >>> 6
    this.#spillDirectory = join(spillRoot, `toolwright-output-${process.pid}-${randomBytes(8).toString('hex')}`)
  }

  prepare(): void {
    if (this.#disposal !== undefined) return
    try {
      this.#host ??= this.#openHost()
    } catch (error) {
      throw new SpawnError(`the process that owns the others could not be started: ${String(error)}`, { cause: error })
    }
  }

  spawn(spec: SpawnSpec): ProcessHandle {
    if (this.#disposal !== undefined) throw new SpawnError('processes are no longer started: the server is stopping')
    checkSpec(spec)
    this.prepare()
    const id = this.#nextId++
    const marker = this.#nextMark()
    const handle = new TreeHandle(id, marker, spec, { post: (message) => this.#post(message), read: this.#read })
    this.#live.set(id, handle)
    this.#post({ type: 'spawn', spec: this.#hostSpec(id, marker, spec) })
    return handle
  }

  resolveExecutable(command: string, env?: Readonly<Record<string, string | undefined>>, signal?: AbortSignal) {
    return resolveExecutable(command, childEnvironment(env), signal)
  }

  /** Ends what a server that died on the same data directory left running; how many processes that were (reliability.md R8). */
  endStrays(): Promise<number> {
    return endStrays(this.#directory)
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
    const host = this.#host
    this.#host = undefined
    this.#forgetRequests()
    // Where some are left the host may just be stuck.
    const areGone = await this.#abandon(host, survivors, new Error('it was stuck when the server stopped'))
    rmSync(this.#spillDirectory, { recursive: true, force: true })
    if (!areGone) {
      const errors = survivors.map(({ pid }) => new Error(`the process tree of pid ${pid} could not be ended`))
      throw new AggregateError(errors, 'not every process tree could be ended')
    }
  }

  #nextMark(): string {
    return treeMark({ directory: this.#directory, server: process.pid, tree: ++this.#lastTree })
  }

  #hostSpec(id: number, marker: string, spec: SpawnSpec): HostSpec {
    const { argv, cwd, stdin, graceMs, drainMs = graceMs, marksLimits = false } = spec
    const env = childEnvironment({ ...spec.env, [TREE_VARIABLE]: marker })
    const [stdout, stderr] = [this.#hostOutput(spec.stdout), this.#hostOutput(spec.stderr)]
    const liveBytesPerSecond = spec.live?.bytesPerSecond ?? 0
    return { id, argv, cwd, env, marker, marksLimits, stdin, stdout, stderr, graceMs, drainMs, liveBytesPerSecond }
  }

  #hostOutput(mode: OutputMode): HostOutput {
    if (typeof mode === 'string') return mode
    const { maxBytes, spill } = mode
    if (spill === undefined) return { maxBytes }
    return { maxBytes, spill: { maxBytes: spill.maxBytes, directory: spill.directory ?? this.#spillDirectory } }
  }

  #read = (id: number, stream: StreamName, offset: number): Promise<Tail | undefined> =>
    this.#ask((request) => ({ type: 'read', id, request, stream, offset }))

  #ask<T>(message: (request: number) => ToHost): Promise<T> {
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

  #post(message: ToHost): void {
    // Without a host there is nothing to talk about: it was lost with all its processes, or ended.
    if (this.#host === undefined) return this.#forgetRequests()
    this.#host.ref()
    this.#host.post(message)
  }

  #openHost(): HostProcess {
    const host: HostProcess = new HostProcess({
      marker: this.#nextMark(),
      spillDirectory: this.#spillDirectory,
      maxSilenceMs: this.#maxHostSilenceMs,
      onMessage: (message) => {
        if (this.#host === host) this.#receive(message)
      },
      onLost: (cause) => {
        if (this.#host === host) void this.#lose(host, cause)
      }
    })
    return host
  }

  #receive(message: Exclude<FromHost, { type: 'pong' }>): void {
    if (message.type === 'window') this.#answer(message.request, message.tail)
    else if (message.type === 'closed') this.#live.delete(message.id)
    else {
      this.#live.get(message.id)?.receive(message)
      if (message.type === 'live' || message.type === 'chunk') return
      if (message.type === 'failed') this.#live.delete(message.id)
    }
    // Only work whose outcome somebody waits for keeps the server's process alive.
    const handles = [...this.#live.values()]
    const isAwaited = this.#requests.size > 0 || handles.some((handle) => handle.isEnding || !handle.hasSettled)
    if (!isAwaited) this.#host?.unref()
  }

  /** The host died or is stuck: nobody watches its processes any more, so they go, and the next spawn starts a new one. */
  async #lose(host: HostProcess, cause: Error): Promise<void> {
    this.#host = undefined
    this.#forgetRequests()
    await this.#abandon(host, [...this.#live.values()], cause)
  }

  /** Ends a host, and then by itself what is left of these trees. True when all of that is gone. */
  async #abandon(host: HostProcess | undefined, handles: readonly TreeHandle[], cause: Error): Promise<boolean> {
    await host?.end()
    const running = handles.filter(({ isGone }) => !isGone)
    // Also those whose start was never told are found, by their marks; until it becomes its program, a child has the mark of its host.
    const trees = [...running, ...(host === undefined ? [] : [{ pid: -1, start: '', marker: host.marker }])]
    const areGone = running.length === 0 || (await this.#killTrees(trees))
    for (const handle of handles) {
      handle.fail(new ProcessLostError(cause))
      this.#live.delete(handle.id)
    }
    return areGone
  }

  #killTrees(trees: readonly TreeIdentity[]): Promise<boolean> {
    const table = new ProcessTable({ since: this.#start })
    return killUntilGone(() => {
      const rows = table.look()
      const members = trees.flatMap((tree) => membersOf(rows, tree))
      for (const row of members) sendSignal(row.pid, 'SIGKILL')
      return members.length
    })
  }

  #forgetRequests(): void {
    for (const request of this.#requests.keys()) this.#answer(request, undefined)
  }
}

function checkSpec({ argv, graceMs, drainMs = graceMs, signal }: SpawnSpec): void {
  signal?.throwIfAborted()
  if (argv.length === 0 || argv[0] === '') throw new SpawnError('there is no program to start')
  for (const ms of [graceMs, drainMs]) {
    if (!(ms > 0 && ms <= MAX_TIMER_MS)) throw new RangeError(`not a usable number of milliseconds: ${ms}`)
  }
}
