/** Where the calls of one agent work. Sessions know it; a call without an agent asks with `undefined`. */
export interface Workspaces {
  /** The canonical absolute directory that relative paths start from; a session without one gets one (reliability.md, decisions). */
  cwdOf(agent: object | undefined): Promise<string> | string
  /** The server's data directory, told to processes as TOOLWRIGHT_HOME (backends.md §3.1). */
  readonly home?: string
  /** The session's own directory for outputs that do not fit into a result; absent means they are kept as long as the server runs. */
  spillDirectoryOf?(agent: object | undefined): string | undefined
}

declare module '../../services.ts' {
  interface Services {
    workspaces: Workspaces
  }
}
