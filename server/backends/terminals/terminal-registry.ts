import {
  type OperatedTerminal,
  type TerminalBackend,
  TerminalError,
  type TerminalInfo,
  type TerminalPage,
  type TerminalRequest,
  type Terminals,
  type TerminalSend,
  type TerminalSession,
  type TerminalSignal
} from './terminals.ts'

/** A name is a label that stands in lines of text: letters, digits, punctuation and single spaces. */
const usableName = /^(?! )[\p{L}\p{M}\p{N}\p{P}\p{S} ]{1,64}(?<! )$/u

export interface TerminalRegistryOptions {
  /** Open terminals of one owner, those included that are being opened. */
  maxPerOwner: number
  /** The same of all owners together. */
  maxTotal: number
  /** Bytes of one send. */
  maxInputBytes: number
  /** Whether this very object is a live agent. */
  isOwnerLive(owner: object): boolean
  /** Hears of each owner that opens a terminal; what it returns is called when that is gone. */
  hold(owner: object): () => void
  onOutput(terminal: { sessionId: string; owner: object }, text: string, offset: number): void
}

interface Label {
  readonly owner: object
  readonly name?: string
}

interface Opening extends Label {
  readonly abort: AbortController
  /** Never rejects; with what could not be rolled back, if anything. */
  over: Promise<unknown>
}

interface Entry extends Label {
  readonly id: string
  readonly type: string
  readonly session: TerminalSession
  readonly release: () => void
  isSending: boolean
  closing?: Promise<void>
}

/** The open terminals, and who may touch them (backends.md §5.1). */
export class TerminalRegistry implements Terminals {
  readonly #options: TerminalRegistryOptions
  readonly #backends = new Map<string, TerminalBackend>()
  readonly #entries = new Map<string, Entry>()
  readonly #openings = new Set<Opening>()
  #lastNumber = 0
  #disposal: Promise<void> | undefined

  constructor(options: TerminalRegistryOptions) {
    this.#options = options
  }

  register(backend: TerminalBackend): () => void {
    if (this.#backends.has(backend.type)) {
      throw new TerminalError('DUPLICATE_BACKEND', `there is a terminal backend of type "${backend.type}" already`)
    }
    this.#backends.set(backend.type, backend)
    return () => {
      if (this.#backends.get(backend.type) === backend) this.#backends.delete(backend.type)
    }
  }

  async open(
    owner: object,
    { type, name, ...request }: TerminalRequest & { type: string; name?: string },
    signal: AbortSignal
  ): Promise<TerminalInfo & { motd: string }> {
    signal.throwIfAborted()
    const backend = this.#backends.get(type)
    this.#checkOpen(owner, name)
    if (backend === undefined) {
      const types = [...this.#backends.keys()].join(', ')
      throw new TerminalError('NO_BACKEND', `there is no terminal of type ${JSON.stringify(type)}; there is: ${types}`)
    }
    const id = `pty-${++this.#lastNumber}`
    const abort = new AbortController()
    const opening: Opening = {
      owner,
      abort,
      over: Promise.resolve(),
      ...(name === undefined ? {} : { name })
    }
    const release = this.#options.hold(owner)
    const options = {
      id,
      signal: AbortSignal.any([signal, abort.signal]),
      onOutput: (text: string, offset: number) => this.#options.onOutput({ sessionId: id, owner }, text, offset)
    }
    // Async, so that a throw is a rejection.
    const opened = (async () => backend.open(request, options))()
    const published = opened.then((session) =>
      this.#publish({ ...opening, id, type, session, release, isSending: false }, signal)
    )
    opening.over = published.then(
      () => undefined,
      // Called off as it should be; all else is a failure to roll back.
      (error: unknown) => (error === abort.signal.reason || error === signal.reason ? undefined : error)
    )
    this.#openings.add(opening)
    try {
      const entry = await published
      return { ...infoOf(entry), motd: entry.session.motd }
    } catch (error) {
      release()
      throw error
    } finally {
      this.#openings.delete(opening)
    }
  }

  #checkOpen(owner: object, name: string | undefined): void {
    if (this.#disposal !== undefined) {
      throw new TerminalError('SERVICE_DISPOSING', 'the server is stopping: no terminal is opened')
    }
    if (!this.#options.isOwnerLive(owner)) {
      throw new TerminalError('OWNER_NOT_LIVE', 'the session that the terminal would belong to has ended')
    }
    if (name !== undefined && !usableName.test(name)) {
      throw new TerminalError('INVALID_NAME', 'a name is 1 to 64 visible characters')
    }
    const all: Label[] = [...this.#entries.values(), ...this.#openings]
    const owned = all.filter((label) => label.owner === owner)
    if (name !== undefined && owned.some((label) => label.name === name)) {
      throw new TerminalError('DUPLICATE_NAME', `there is a terminal named ${JSON.stringify(name)} already`)
    }
    const { maxPerOwner, maxTotal } = this.#options
    if (owned.length < maxPerOwner && all.length < maxTotal) return
    throw new TerminalError(
      'TOO_MANY_SESSIONS',
      `${owned.length} of your terminals and ${all.length} in all are open: close one first`
    )
  }

  /** The terminal is ready. What has become of its owner meanwhile decides whether it may stay. */
  async #publish(entry: Entry & { abort: AbortController }, signal: AbortSignal): Promise<Entry> {
    const { abort, ...published } = entry
    const isWanted = !signal.aborted && !abort.signal.aborted && this.#options.isOwnerLive(entry.owner)
    if (!isWanted) {
      await entry.session.close()
      signal.throwIfAborted()
      abort.signal.throwIfAborted()
      throw new TerminalError('OWNER_NOT_LIVE', 'the session that the terminal would belong to has ended')
    }
    this.#entries.set(entry.id, published)
    return published
  }

  send(owner: object, sessionId: string, text: string): TerminalSend {
    const entry = this.#reach(owner, sessionId)
    if (entry.session.status.kind === 'exited' || entry.closing !== undefined) {
      throw new TerminalError('SESSION_EXITED', `the shell of terminal ${sessionId} has exited`)
    }
    if (entry.isSending) {
      throw new TerminalError(
        'SEND_ACTIVE',
        `a send to terminal ${sessionId} is still active; wait for it or signal it`
      )
    }
    this.checkInput(text)
    entry.isSending = true
    const send = entry.session.send(text)
    void send.released.then(() => (entry.isSending = false))
    return send
  }

  /** Throws `INPUT_TOO_LARGE`. */
  checkInput(text: string): void {
    const { maxInputBytes } = this.#options
    if (Buffer.byteLength(text) <= maxInputBytes) return
    throw new TerminalError('INPUT_TOO_LARGE', `a terminal takes at most ${maxInputBytes} bytes at a time`)
  }

  async read(owner: object, sessionId: string, offset: number, count: number): Promise<TerminalPage> {
    return this.#reach(owner, sessionId).session.read(offset, count)
  }

  async signal(owner: object, sessionId: string, signal: TerminalSignal): Promise<number> {
    return this.#reach(owner, sessionId).session.signal(signal)
  }

  async close(owner: object, sessionId: string): Promise<'closed' | 'already-closing'> {
    return this.#close(this.#reach(owner, sessionId))
  }

  list(owner: object): TerminalInfo[] {
    return [...this.#entries.values()].filter((entry) => entry.owner === owner).map(infoOf)
  }

  isUsedBy(owner: object): boolean {
    return [...this.#entries.values(), ...this.#openings].some((label) => label.owner === owner)
  }

  all(): OperatedTerminal[] {
    return [...this.#entries.values()].map((entry) => ({
      info: infoOf(entry),
      owner: entry.owner,
      session: entry.session,
      close: () => this.#close(entry)
    }))
  }

  async closeOwned(isMeant: (owner: object) => boolean): Promise<void> {
    const openings = [...this.#openings].filter(({ owner }) => isMeant(owner))
    for (const { abort } of openings)
      abort.abort(new TerminalError('OWNER_NOT_LIVE', 'the owner of the terminal has ended'))
    const entries = [...this.#entries.values()].filter(({ owner }) => isMeant(owner))
    const [left, closed] = await Promise.all([
      Promise.all(openings.map(({ over }) => over)),
      Promise.allSettled(entries.map((entry) => this.#close(entry)))
    ])
    const failures = [
      ...left.filter((failure) => failure !== undefined),
      ...closed.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as unknown] : []))
    ]
    if (failures.length > 0) throw new AggregateError(failures, 'not every terminal could be ended')
  }

  dispose(): Promise<void> {
    this.#disposal ??= this.closeOwned(() => true)
    return this.#disposal
  }

  #reach(owner: object, sessionId: string): Entry {
    const entry = this.#entries.get(sessionId)
    if (entry === undefined) {
      throw new TerminalError('NO_SESSION', `there is no terminal ${JSON.stringify(sessionId)}`)
    }
    if (entry.owner !== owner) {
      throw new TerminalError('FOREIGN_SESSION', `terminal ${sessionId} belongs to another session`)
    }
    return entry
  }

  /** A close that fails leaves the terminal registered, to be tried again. */
  async #close(entry: Entry): Promise<'closed' | 'already-closing'> {
    if (entry.closing !== undefined) {
      await entry.closing
      return 'already-closing'
    }
    entry.closing = entry.session.close()
    try {
      await entry.closing
    } catch (error) {
      delete entry.closing
      throw error
    }
    this.#entries.delete(entry.id)
    entry.release()
    return 'closed'
  }
}

function infoOf({ id, name, type, session }: Entry): TerminalInfo {
  const { pid, status } = session
  return { sessionId: id, ...(name === undefined ? {} : { name }), type, ...(pid > 0 ? { pid } : {}), status }
}
