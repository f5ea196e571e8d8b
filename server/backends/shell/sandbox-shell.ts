import { type Sandbox, SandboxError, type SandboxPolicy } from '../sandbox/sandbox.ts'
import type { Subprocesses } from '../subprocess/subprocess.ts'
import { BashShell } from './bash-shell.ts'
import type { ShellOptions } from './command-shell.ts'
import type {
  BackgroundCommand,
  RunOptions,
  SandboxFacts,
  Shell,
  ShellRequest,
  ShellRunResult,
  ShellSpec
} from './shell.ts'

/**
 * The executor `bash-sandbox` (backends.md §3.1, §11.2): commands as BashShell runs them, confined by the policy of each. Only
 * `danger-full-access` runs without the sandbox, which is then not asked.
 */
export class SandboxShell implements Shell {
  readonly #bash: BashShell
  readonly #sandbox: Sandbox

  constructor(subprocesses: Subprocesses, sandbox: Sandbox, options: Pick<ShellOptions, 'limits' | 'cwd'> = {}) {
    this.#sandbox = sandbox
    this.#bash = new BashShell(subprocesses, {
      ...options,
      launch: (argv, spec) => {
        const policy = policyOf(spec)
        if (policy.mode === 'danger-full-access') return { argv, env: {} }
        return sandbox.confine(argv, policy, { workdir: spec.workdir })
      }
    })
  }

  resolve(request: ShellRequest): ShellSpec {
    return this.#bash.resolve(request)
  }

  async run(spec: ShellSpec, options: RunOptions): Promise<ShellRunResult> {
    const policy = policyOf(spec)
    const ended = asSignalled(await this.#bash.run(spec, options))
    const { exitCode, stdout, stderr } = ended
    const facts = await this.#factsOf(policy, { exitCode, stdout: stdout.text, stderr: stderr.text })
    if (facts.runnerFailed === true) throw new SandboxError(`the sandbox failed: ${firstLine(stderr.text)}`)
    return { ...ended, sandbox: facts }
  }

  start(spec: ShellSpec): BackgroundCommand {
    const policy = policyOf(spec)
    return this.#bash.start(spec, async (handle) => {
      const { exitCode } = await handle.done
      const [stdout, stderr] = await Promise.all([
        handle.collected.stdout?.readFrom(0),
        handle.collected.stderr?.readFrom(0)
      ])
      return this.#factsOf(policy, { exitCode, stdout: stdout?.text ?? '', stderr: stderr?.text ?? '' })
    })
  }

  async #factsOf(
    policy: SandboxPolicy,
    end: { exitCode: number | null; stdout: string; stderr: string }
  ): Promise<SandboxFacts> {
    const { mode } = policy
    if (mode === 'danger-full-access') return { mode, denied: false }
    const { enforcement } = this.#sandbox
    const kind = this.#sandbox.classify(end)
    // A command may say what the runner says: whether the sandbox is at fault shows when it is tried.
    if (kind === 'runner-failure' && (await this.#sandbox.isBroken(policy))) {
      return { mode, denied: false, enforcement, runnerFailed: true }
    }
    return { mode, denied: kind === 'denied', enforcement }
  }
}

function policyOf({ policy }: ShellSpec): SandboxPolicy {
  // Fail closed: whoever forgot it must not run free.
  if (policy === undefined) throw new SandboxError('a command without a policy is not run')
  return policy
}

/**
 * Inside, a command that a signal ended shows as 128 and its number; where it was this server that ended it, the signal is known to be
 * the one that was sent.
 */
function asSignalled(result: ShellRunResult): ShellRunResult {
  const { exitCode, timedOut, aborted } = result
  const signal = { 143: 'SIGTERM', 137: 'SIGKILL' }[exitCode ?? 0]
  return signal !== undefined && (timedOut || aborted) ? { ...result, exitCode: null, signal } : result
}

const firstLine = (text: string): string => text.trim().split('\n')[0] ?? ''
