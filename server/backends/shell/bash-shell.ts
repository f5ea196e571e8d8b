import type { Subprocesses } from '../subprocess/subprocess.ts'
import { CommandShell, type ShellOptions } from './command-shell.ts'

/** The executor `bash-local` (backends.md §3.1): each command as `bash -c <command>`, non-login and non-interactive. */
export class BashShell extends CommandShell {
  constructor(subprocesses: Subprocesses, options?: ShellOptions) {
    super(subprocesses, (command) => ['bash', '-c', command], options)
  }
}
