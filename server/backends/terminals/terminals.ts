import { CodedError } from '../../errors.ts'

export type TerminalStatus = { kind: 'running' } | { kind: 'exited'; exitCode: number | null; signal: string | null }

/**
 * Why a send came back (backends.md §5.2). `inferred_idle` and `timeout` do not mean that the command ended; `session_exit` means
 * that the shell did, or that the terminal was closed meanwhile.
 */
export type WaitReason = 'stdin_read' | 'inferred_idle' | 'timeout' | 'session_exit'

/** What a terminal showed between a write and the end of its wait: the last part of it where it does not fit. */
export interface SendResult {
  viewport: string
  waitReason: WaitReason
  sessionStatus: TerminalStatus
  truncated: boolean
}

/** Lines of the scrollback, counted back from the newest: `lineBegin` inclusive, `lineEnd` exclusive (backends.md §5.3). */
export interface TerminalPage {
  text: string
  totalLines: number
  lineBegin: number
  lineEnd: number
  /** The lines did not fit into one answer; the older ones are cut off. */
  truncated: boolean
}

/** A piece of the output, read without consuming it. Offsets count UTF-8 bytes of the plain text since the start. */
export interface TerminalOutput {
  text: string
  /** Where `text` begins: later than asked for when that is no longer kept, earlier when it lay beyond the end. */
  from: number
  next: number
  /** Bytes between the asked offset and `from` are no longer kept. */
  lossy: boolean
}

export const terminalSignals = ['SIGINT', 'SIGTERM', 'SIGKILL', 'SIGTSTP', 'SIGHUP'] as const

export type TerminalSignal = (typeof terminalSignals)[number]

/** One send under way. */
export interface TerminalSend {
  /** Rejects when the terminal was lost, or could not be interrupted and was ended for it. */
  readonly done: Promise<SendResult & { isCancelled: boolean }>
  /** Resolves when the next send may begin: after `done`, once nothing of this one is left to be written. Never rejects. */
  readonly released: Promise<void>
  /** What the terminal showed since the last read of this send, consuming. `lossy`: some of it is no longer kept. */
  readOutput(): Promise<{ text: string; lossy: boolean }>
  /** Input that is not written yet is dropped, what runs in the foreground gets SIGINT, and the send is done. */
  cancel(): void
}

/** An open terminal, as its backend has it. */
export interface TerminalSession {
  readonly pid: number
  /** What it showed until it was ready. */
  readonly motd: string
  readonly status: TerminalStatus
  send(text: string): TerminalSend
  read(offset: number, count: number): Promise<TerminalPage>
  /**
   * Up to `maxBytes` of output from an offset on, one whole character at least. Where there is none, beyond the end too, it waits for
   * what comes next, until `signal` fires or the terminal ends.
   */
  output(after: number, maxBytes: number, signal: AbortSignal): Promise<TerminalOutput>
  /** Writes text without waiting for what comes of it: what a person types. */
  input(text: string): Promise<void>
  /** Signals the foreground process group; its id. */
  signal(signal: TerminalSignal): Promise<number>
  /** Ends every process of the terminal, and resolves when all are gone. Rejects when some are not; it can be tried again. */
  close(): Promise<void>
}

/** What a terminal is opened with. */
export interface TerminalRequest {
  /** Absolute. */
  cwd: string
  /** `TOOLWRIGHT_*` variables, put over all others. */
  managedEnv?: Readonly<Record<string, string>>
  /** What the command line becomes, and what its environment is put over: confined, by default as it is. May throw. */
  launch?: (argv: readonly [string, ...string[]]) => Promise<Launch>
}

export interface Launch {
  argv: readonly [string, ...string[]]
  env: Readonly<Record<string, string | undefined>>
}

export interface OpenOptions {
  id: string
  signal: AbortSignal
  /** Output as it comes, `offset` being where the text begins; in a flood some is left out, and the next offset tells. */
  onOutput: (text: string, offset: number) => void
}

/** One kind of terminals (backends.md §5.1). `open` resolves when the terminal is ready, and leaves nothing behind if it rejects. */
export interface TerminalBackend {
  readonly type: string
  open(request: TerminalRequest, options: OpenOptions): Promise<TerminalSession>
}

/** What is told of an open terminal. */
export interface TerminalInfo {
  sessionId: string
  name?: string
  type: string
  pid?: number
  status: TerminalStatus
}

/** A terminal as operators know it, whoever owns it. */
export interface OperatedTerminal {
  readonly info: TerminalInfo
  readonly owner: object
  readonly session: TerminalSession
  close(): Promise<'closed' | 'already-closing'>
}

/**
 * The open terminals (backends.md §5.1). An owner is the exact object of an agent; every operation on a terminal rejects with
 * `TerminalError`: `NO_SESSION` if there is no such one, `FOREIGN_SESSION` if it is another's.
 */
export interface Terminals {
  /** Throws `DUPLICATE_BACKEND`. Returns the undo. */
  register(backend: TerminalBackend): () => void
  /** Rejects with `NO_BACKEND`, `DUPLICATE_NAME`, `INVALID_NAME`, `OWNER_NOT_LIVE`, `TOO_MANY_SESSIONS`, `SERVICE_DISPOSING`. */
  open(
    owner: object,
    request: TerminalRequest & { type: string; name?: string },
    signal: AbortSignal
  ): Promise<TerminalInfo & { motd: string }>
  /** Throws also `SEND_ACTIVE` while another send is not released, `SESSION_EXITED`, `INPUT_TOO_LARGE`. */
  send(owner: object, sessionId: string, text: string): TerminalSend
  read(owner: object, sessionId: string, offset: number, count: number): Promise<TerminalPage>
  signal(owner: object, sessionId: string, signal: TerminalSignal): Promise<number>
  close(owner: object, sessionId: string): Promise<'closed' | 'already-closing'>
  list(owner: object): TerminalInfo[]
  /** Whether the owner has a terminal, or is getting one. */
  isUsedBy(owner: object): boolean
  /** Every open terminal, in the order of their ids. */
  all(): OperatedTerminal[]
  /** Ends the terminals and the opens in progress of these owners; rejects, when all were tried, with what failed. */
  closeOwned(isMeant: (owner: object) => boolean): Promise<void>
  /** As `closeOwned` for all owners; nothing can be opened any more. */
  dispose(): Promise<void>
}

/** Codes: see `Terminals`; `TERMINAL_LOST` when the process that held the terminal died. */
export class TerminalError extends CodedError {}

declare module '../../services.ts' {
  interface Services {
    terminals: Terminals
  }
}
