import type { SendResult, TerminalOutput, TerminalPage, TerminalSignal } from './terminals.ts'

/** Every limit of a terminal (backends.md §5.2), in milliseconds, lines and bytes. */
export interface PtyLimits {
  /** Between two looks at whether a send is done. */
  pollMs: number
  /** Earliest time after a write at which a program that reads its input counts as waiting for more. */
  inputWaitMs: number
  /** Silence after which the wait is over. */
  idleMs: number
  /** Added to it when the shell has announced its prompt but is not in the foreground yet. */
  idleGraceMs: number
  /** The longest wait, and the longest start. */
  timeoutMs: number
  /** From SIGTERM to SIGKILL. */
  graceMs: number
  scrollbackLines: number
  scrollbackBytes: number
  /** The most that one read or send shows. */
  viewportBytes: number
  /** Output a second that is passed on as it comes. */
  liveBytesPerSecond: number
}

/** What the host starts. */
export interface PtySpec {
  id: string
  argv: readonly [string, ...string[]]
  cwd: string
  env: Record<string, string>
  rows: number
  cols: number
  /** What the shell prints when it waits for a command. */
  prompt: string
  limits: PtyLimits
}

/** How a send ended; `end` is where its output does. */
export interface SendOutcome extends SendResult {
  end: number
  /** Some of the input is not written yet. */
  isWriting: boolean
  isCancelled: boolean
}

/** What the server asks of the host; each call has exactly one answer, or an error. */
export interface HostCalls {
  /** Answered when the shell is ready; an error leaves nothing behind. */
  open: { args: PtySpec; answer: { pid: number; motd: string } }
  /** Answered when the write begins: `offset` is where the output of this send does. */
  send: { args: { id: string; text: string }; answer: { offset: number } }
  /** Answered when the send under way, or the last one, is done. */
  wait: { args: { id: string }; answer: SendOutcome }
  /** Answered when nothing is left to be written. */
  drain: { args: { id: string }; answer: null }
  /** Ends the send under way; answered when the foreground has its SIGINT. */
  cancel: { args: { id: string }; answer: null }
  read: { args: { id: string; offset: number; count: number }; answer: TerminalPage }
  output: {
    args: { id: string; after: number; maxBytes: number; end?: number }
    answer: TerminalOutput
  }
  input: { args: { id: string; text: string }; answer: null }
  signal: { args: { id: string; signal: TerminalSignal }; answer: { group: number } }
  /** Answered when all processes are gone. The text is kept until `forget`. */
  close: { args: { id: string }; answer: null }
  forget: { args: { id: string }; answer: null }
  /** Answered at once: it is well. */
  ping: { args: Record<string, never>; answer: null }
}

export type HostMethod = keyof HostCalls

export type ToHost = { [M in HostMethod]: { request: number; method: M; args: HostCalls[M]['args'] } }[HostMethod]

export type FromHost =
  | { type: 'answer'; request: number; value: unknown }
  | { type: 'error'; request: number; message: string; code?: string }
  | { type: 'output'; id: string; offset: number; text: string }
  | { type: 'exited'; id: string; exitCode: number | null; signal: string | null }
