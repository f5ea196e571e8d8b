/** A text too long for a result, to be kept whole (core.md §27.3). */
export interface SpillRequest {
  owner: { sessionId: string }
  source: { toolName: string; callId: string; label: string }
  suggestedName: string
  text: string
}

export interface SpilledText {
  /** Where it is: for the local store an absolute path. */
  locator: string
  bytes: number
  /** How a model gets at it, as one short phrase. */
  retrievalHint: string
}

/** Keeps what was cut from results, by session (backends.md §13). */
export interface SpillStore {
  save(request: SpillRequest): Promise<SpilledText>
  /** The session's own directory, for outputs that are written while they come (backends.md §2). Pure. */
  directoryOf(sessionId: string): string
  /** Removes everything of a session; nothing there is not an error. */
  removeSession(sessionId: string): Promise<void>
}

declare module '../../services.ts' {
  interface Services {
    spillStore: SpillStore
  }
}
