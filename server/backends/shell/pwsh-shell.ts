import type { Subprocesses } from '../subprocess/subprocess.ts'
import { CommandShell, type ShellOptions } from './command-shell.ts'

/**
 * Put before each command, on its first line, so that PowerShell's messages count lines as the command does. Without it the output is in
 * the code page of the system or the character set of the locale.
 */
const utf8Output = '[Console]::OutputEncoding = [Text.Encoding]::UTF8; '

/** The executor `pwsh-local` (backends.md §3.3): each command in a PowerShell of its own, without profile and without questions. */
export class PwshShell extends CommandShell {
  /** Rejects with SpawnError where no program `pwsh` is on the server's PATH. */
  static async open(subprocesses: Subprocesses, options?: ShellOptions): Promise<PwshShell> {
    return new PwshShell(subprocesses, await subprocesses.resolveExecutable('pwsh'), options)
  }

  private constructor(subprocesses: Subprocesses, program: string, options?: ShellOptions) {
    super(
      subprocesses,
      (command) => [program, '-NoLogo', '-NoProfile', '-NonInteractive', '-Command', utf8Output + command],
      options
    )
  }
}
