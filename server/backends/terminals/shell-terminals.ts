import { childEnvironment } from '../subprocess/environment.ts'
import type { Subprocesses } from '../subprocess/subprocess.ts'
import type { PtyLimits } from './messages.ts'
import { PtyHost, type PtyHostOptions } from './pty-host.ts'
import { ShellTerminal } from './shell-terminal.ts'
import type { OpenOptions, TerminalBackend, TerminalRequest, TerminalSession } from './terminals.ts'

const ROWS = 40
const COLUMNS = 160
const PROMPT = '$ '
/** Far more than it ever takes, on the busiest machine: with it go all terminals. */
const MAX_SILENCE_MS = 20_000

export const defaultPtyLimits: PtyLimits = {
  pollMs: 50,
  inputWaitMs: 150,
  idleMs: 3_000,
  idleGraceMs: 500,
  timeoutMs: 30_000,
  graceMs: 3_000,
  scrollbackLines: 10_000,
  scrollbackBytes: 4 * 1024 * 1024,
  viewportBytes: 256 * 1024,
  liveBytesPerSecond: 64 * 1024
}

/**
 * Before each prompt: the prompt is set anew, whatever was made of it, and announced by a mark that nobody sees. The mark comes last,
 * so that nothing but the prompt follows it, even where the shell traces its commands.
 */
const promptCommand = `__toolwright_status=$? PS1='${PROMPT}'; printf '\\033]133;D;%s\\007' "$__toolwright_status"`

/** No pager, no colours: output is read line by line. */
const shellEnvironment = {
  TERM: 'dumb',
  PAGER: 'cat',
  GIT_PAGER: 'cat',
  PS1: PROMPT,
  PROMPT_COMMAND: promptCommand,
  // Nothing that was typed into a terminal is left in a file of the user's; unset, bash would choose one.
  HISTFILE: ''
}

/** Terminals of the type `shell`: an interactive bash each (backends.md §5.2), all held by one process beside the server. */
export class ShellTerminals implements TerminalBackend {
  readonly type = 'shell'
  readonly #host: PtyHost
  readonly #limits: PtyLimits

  /** What is not given of the host's options is its default. */
  constructor(
    subprocesses: Subprocesses,
    {
      limits = {},
      warn,
      maxSilenceMs = MAX_SILENCE_MS
    }: { limits?: Partial<PtyLimits> } & Pick<PtyHostOptions, 'warn'> & Partial<PtyHostOptions>
  ) {
    this.#host = new PtyHost(subprocesses, { maxSilenceMs, warn })
    this.#limits = { ...defaultPtyLimits, ...limits }
  }

  async open(request: TerminalRequest, { id, signal, onOutput }: OpenOptions): Promise<TerminalSession> {
    const { cwd, managedEnv, launch } = request
    const shell = ['/bin/bash', '--noprofile', '--norc', '-i'] as const
    const { argv, env } = (await launch?.(shell)) ?? { argv: shell, env: {} }
    signal.throwIfAborted()
    const spec = {
      id,
      argv,
      cwd,
      env: childEnvironment({ ...env, ...shellEnvironment, ...managedEnv, TOOLWRIGHT_PTY_SESSION_ID: id }),
      rows: ROWS,
      cols: COLUMNS,
      prompt: PROMPT,
      limits: this.#limits
    }
    return ShellTerminal.open(this.#host.connect(), spec, { signal, onOutput })
  }

  /** Ends the process that holds the terminals, and whatever still runs in them. */
  dispose(): Promise<void> {
    return this.#host.dispose()
  }
}
