/** How a world ended: of a process the exit code or the signal, `detail` if something more is known. */
export interface Ending {
  readonly code: number | null
  readonly signal: string | null
  readonly detail?: string | undefined
}

/** What a run, or the spares, hear of a world. `frame` is unchecked; `raw` is output that came on a pipe. */
export interface WorldListener {
  frame(frame: unknown): void
  raw(stream: 'stdout' | 'stderr', text: string): void
  ended(ending: Ending): void
}

/** Measured so far, from outside: undefined where it cannot be told. */
export interface WorldUsage {
  readonly cpuMs: number | undefined
  readonly busyMs: number | undefined
  readonly rssBytes: number | undefined
  readonly processes: number
}

/** A place for one program: a thread of the server, or a process. It has one listener at a time. */
export interface World {
  listener: WorldListener
  readonly hasEnded: boolean
  send(frame: string): void
  /** `isQuick`: without looking for processes that are new, which takes milliseconds. */
  usage(isQuick?: boolean): WorldUsage
  /** Ends it and resolves once it has ended, which a stuck one never does. */
  end(): Promise<void>
}
