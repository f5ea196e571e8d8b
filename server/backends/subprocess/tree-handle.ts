import type { FromHost, StreamName, Tail, TailMap, ToHost } from './messages.ts'
import { pieceOf, windowOf } from './output-window.ts'
import { PipedInput, PipedOutput } from './piped-streams.ts'
import { type CollectedOutput, type ExitFacts, type ProcessHandle, SpawnError, type SpawnSpec } from './subprocess.ts'

/** What a handle needs of the host that owns its process. */
export interface HostLink {
  post(message: ToHost): void
  /** The kept bytes from an offset on; undefined when the host has none any more. */
  read(id: number, stream: StreamName, offset: number): Promise<Tail | undefined>
}

function deferred<T>() {
  let resolve!: (value: T) => void
  let reject!: (error: Error) => void
  const promise = new Promise<T>((res, rej) => ([resolve, reject] = [res, rej]))
  return { promise, resolve, reject }
}

/** The server's side of one tree: it turns the host's messages into promises and streams. */
export class TreeHandle implements ProcessHandle {
  readonly id: number
  readonly spec: SpawnSpec
  /** What every process of the tree has in its environment. */
  readonly marker: string
  readonly collected: { stdout?: CollectedOutput; stderr?: CollectedOutput } = {}
  readonly stdin?: PipedInput
  readonly stdout?: PipedOutput
  readonly stderr?: PipedOutput
  /** With the pid it names the leader for good. */
  start = ''
  pid = -1
  isGone = false
  hasSettled = false
  isEnding = false
  readonly #link: HostLink
  readonly #started = deferred<number>()
  readonly #done = deferred<ExitFacts>()
  readonly #gone = deferred<void>()
  #tails: TailMap = {}
  readonly #onAbort = () => this.terminate()

  constructor(id: number, marker: string, spec: SpawnSpec, link: HostLink) {
    this.id = id
    this.marker = marker
    this.spec = spec
    this.#link = link
    this.#done.promise.catch(() => {})
    if (spec.stdin === 'pipe') this.stdin = new PipedInput((data) => link.post({ type: 'stdin', id, data }))
    if (spec.stdout === 'pipe') this.stdout = this.#pipe('stdout')
    if (spec.stderr === 'pipe') this.stderr = this.#pipe('stderr')
    if (typeof spec.stdout === 'object') this.collected.stdout = this.#collect('stdout')
    if (typeof spec.stderr === 'object') this.collected.stderr = this.#collect('stderr')
    spec.signal?.addEventListener('abort', this.#onAbort, { once: true })
  }

  get started(): Promise<number> {
    return this.#started.promise
  }

  get done(): Promise<ExitFacts> {
    return this.#done.promise
  }

  #pipe(stream: StreamName): PipedOutput {
    return new PipedOutput((bytes) => this.#link.post({ type: 'taken', id: this.id, stream, bytes }))
  }

  #collect(stream: StreamName): CollectedOutput {
    const tailFrom = async (offset: number): Promise<Tail> => {
      const isLive = !this.hasSettled
      const tail = (isLive ? await this.#link.read(this.id, stream, offset) : undefined) ?? this.#tails[stream]
      return tail ?? { bytes: new Uint8Array(), total: 0 }
    }
    return {
      readFrom: async (offset) => windowOf(await tailFrom(offset), offset, this.hasSettled),
      readPiece: async (offset, maxBytes) => pieceOf(await tailFrom(offset), offset, maxBytes, this.hasSettled)
    }
  }

  terminate(): void {
    if (this.isGone || this.isEnding) return
    this.isEnding = true
    this.#link.post({ type: 'terminate', id: this.id })
  }

  async waitForExit(bound?: AbortSignal): Promise<boolean> {
    if (this.isGone) return true
    if (bound?.aborted === true) return false
    let onAbort = () => {}
    const aborted = new Promise<boolean>((resolve) => (onAbort = () => resolve(false)))
    bound?.addEventListener('abort', onAbort, { once: true })
    try {
      return await Promise.race([this.#gone.promise.then(() => true), aborted])
    } finally {
      bound?.removeEventListener('abort', onAbort)
    }
  }

  /** Takes a message of the host about this tree. */
  receive(message: Exclude<FromHost, { type: 'window' | 'closed' | 'pong' }>): void {
    switch (message.type) {
      case 'started':
        this.pid = message.pid
        this.start = message.start
        return this.#started.resolve(message.pid)
      case 'failed':
        return this.fail(new SpawnError(`could not start ${JSON.stringify(this.spec.argv[0])}: ${message.message}`))
      case 'settled':
        this.hasSettled = true
        this.#tails = message.tails
        return this.#done.resolve({ exitCode: message.exitCode, signal: message.signal })
      case 'gone':
        return this.#leave()
      case 'live':
        return this.spec.live?.onText(message.text)
      case 'chunk':
        return this[message.stream]?.accept(message.data)
      case 'end':
        return this[message.stream]?.accept(null)
      case 'stdin-taken':
        return this.stdin?.taken(message.error)
    }
  }

  /** Nothing was started, or the host is lost. */
  fail(error: SpawnError): void {
    this.hasSettled = true
    this.#started.resolve(-1)
    this.#done.reject(error)
    this.stdout?.accept(null)
    this.stderr?.accept(null)
    this.#leave()
  }

  #leave(): void {
    this.isGone = true
    this.spec.signal?.removeEventListener('abort', this.#onAbort)
    this.stdin?.cut()
    this.#gone.resolve()
  }
}
