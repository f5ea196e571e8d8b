import { ProcessLostError, type Subprocesses } from '../subprocess/subprocess.ts'
import { bwrapArguments, type MountOptions, type SandboxLimits } from './bwrap-arguments.ts'
import {
  type ConfineOptions,
  type Confined,
  type Confinement,
  type EndKind,
  type Sandbox,
  type SandboxedEnd,
  SandboxError,
  type SandboxPolicy
} from './sandbox.ts'
import { isWithin } from './write-fence.ts'

export interface BwrapOptions {
  subprocesses: Subprocesses
  /** Canonical. */
  dataDirectory: string
  /** Files and directories, canonical, that commands find empty, besides the data directory. */
  hiddenPaths?: readonly string[]
  /** The user that commands run as when the server is root, never 0: real root would keep its rights over /proc/sys. */
  uid: number
  limits: SandboxLimits
  /** Names of variables of the server that commands see, besides PATH, LANG, TERM and TZ. */
  environment: readonly string[]
  /** Where programs are looked for; the server's PATH when absent. */
  path?: string
}

/** Mounts go by name, and a command of another session may have put a link there since the directory was judged (reliability.md S10). */
const checkWorkspace =
  'here=$(stat -c %d:%i -- "$1"); if [ "$here" != "$2" ]; then echo "the workspace is another directory now" >&2; exit 126; fi; shift 2; exec "$@"'

const passedVariables = ['PATH', 'LANG', 'TERM', 'TZ']
/** A probe that takes longer does not work. */
const probeMs = 30_000
/** How what stands before the command begins a complaint. */
const runnerComplaint = /^(?:bwrap|setpriv|prlimit|env): /
const runnerExitCodes = new Set([1, 125, 126, 127])

/** Programs that the command line is made of, absolute. `setpriv` is there where the server is root. */
interface Programs {
  bwrap: string
  env: string
  prlimit: string
  setpriv?: string
}

/** Confines with bubblewrap: namespaces of its own, a read-only file system, no capabilities, kernel limits (reliability.md §6). */
export class BwrapSandbox implements Sandbox {
  readonly name = 'bwrap'
  readonly enforcement = 'full'
  readonly #options: BwrapOptions
  readonly #programs: Programs
  readonly #mounts: MountOptions
  readonly #usable = new Set<string>()

  private constructor(options: BwrapOptions, programs: Programs, mounts: MountOptions) {
    this.#options = options
    this.#programs = programs
    this.#mounts = mounts
  }

  /** Rejects with SandboxError, saying why, unless `true` ran under it with /proc/sys closed: what does not work here is not there. */
  static async open(options: BwrapOptions): Promise<BwrapSandbox> {
    const { subprocesses, uid, path } = options
    const isRoot = process.getuid?.() === 0
    if (isRoot && uid === 0) throw new SandboxError('commands never run as root in a sandbox: set sandbox.uid')
    const env = path === undefined ? {} : { PATH: path }
    const find = (name: string) =>
      subprocesses.resolveExecutable(name, env).catch((error: unknown) => {
        throw new SandboxError(`${name} is not installed`, { cause: error })
      })
    const [bwrap, envProgram, prlimit] = await Promise.all([find('bwrap'), find('env'), find('prlimit')])
    const programs = { bwrap, env: envProgram, prlimit, ...(isRoot ? { setpriv: await find('setpriv') } : {}) }
    const failures: string[] = []
    for (const canDisableUserns of [true, false]) {
      const { dataDirectory, hiddenPaths = [], limits } = options
      const mounts = { dataDirectory, hiddenPaths, limits, canDisableUserns, uid: isRoot ? uid : undefined }
      const sandbox = new BwrapSandbox(options, programs, mounts)
      const failure = await sandbox.#probe({ mode: 'read-only', workspaceRoot: '/usr' }).catch((error: unknown) => {
        // Nothing is known of the sandbox: the weaker form is no way out.
        throw new SandboxError(`bwrap could not be tried: ${(error as Error).message}`, { cause: error })
      })
      if (failure === undefined) return sandbox
      failures.push(failure)
    }
    throw new SandboxError(`bwrap does not work here: ${failures[0]}`)
  }

  /** The user that commands run as, where it is another than the server's. */
  get uid(): number | undefined {
    return this.#mounts.uid
  }

  get confines(): readonly Confinement[] {
    const { network } = this.#mounts.limits
    return [
      ...(['writes', 'state', 'environment', 'processes', 'limits'] as const),
      ...(this.uid === undefined ? [] : (['user'] as const)),
      ...(network === 'none' ? (['network'] as const) : [])
    ]
  }

  confine(argv: readonly [string, ...string[]], policy: SandboxPolicy, options: ConfineOptions): Confined {
    if (policy.mode === 'danger-full-access') throw new TypeError('a sandbox is not asked to confine nothing')
    this.#assertSafe(policy)
    const { bwrap, env, prlimit } = this.#programs
    const { maxProcesses, maxOpenFiles, maxFileBytes, maxMemoryBytes } = this.#mounts.limits
    return {
      argv: [
        // The server's SIGTERM is meant for the command: bwrap, dying of it, would take the command along before it can tidy up.
        ...([env, '--ignore-signal=TERM'] as const),
        ...this.#asUser(),
        bwrap,
        ...bwrapArguments(policy, options, this.#mounts),
        ...[env, '--default-signal=TERM'],
        // Inside, for there a user's processes are counted per sandbox.
        ...[prlimit, `--nproc=${maxProcesses}`, `--nofile=${maxOpenFiles}`, `--fsize=${maxFileBytes}`, '--core=0'],
        ...(maxMemoryBytes === 0 ? [] : [`--as=${maxMemoryBytes}`]),
        '--',
        ...(policy.workspaceIdentity === undefined
          ? []
          : ['/bin/sh', '-c', checkWorkspace, 'sh', policy.workspaceRoot, policy.workspaceIdentity]),
        ...argv
      ],
      env: this.#environment(policy.workspaceRoot)
    }
  }

  async assertUsable({ mode, workspaceRoot }: SandboxPolicy): Promise<void> {
    const key = `${mode} ${workspaceRoot}`
    if (mode === 'danger-full-access') return
    this.#assertSafe({ workspaceRoot })
    if (this.#usable.has(key)) return
    const isWritable = mode === 'workspace-write'
    const test = isWritable ? `[ -w "$0" ] && [ -x "$0" ]` : `[ -x "$0" ]`
    // Asked as the user itself: access lists and closed directories on the way count too.
    const { exitCode, stderr } = await this.#run([...this.#asUser(), '/bin/sh', '-c', test, workspaceRoot])
    if (exitCode !== 0) {
      const who = this.uid === undefined ? 'the server' : `the sandbox's user (uid ${this.uid})`
      const what = `${isWritable ? 'write in' : 'enter'} the workspace ${workspaceRoot}`
      if (exitCode === 1 && stderr === '') throw new SandboxError(`${who} cannot ${what}`)
      const end = stderr.trim() || `the test ended with ${exitCode}`
      throw new SandboxError(`whether ${who} can ${what} could not be found out: ${end}`)
    }
    this.#usable.add(key)
  }

  classify({ exitCode, stdout, stderr }: SandboxedEnd): EndKind {
    if (exitCode === null || exitCode === 0) return 'ordinary'
    if (runnerExitCodes.has(exitCode) && stdout === '' && runnerComplaint.test(stderr)) return 'runner-failure'
    return /read-only file system/i.test(stderr) ? 'denied' : 'ordinary'
  }

  /** Mounted at its place, such a workspace would uncover what the sandbox covers: the processes of the machine, the server's data. */
  #assertSafe({ workspaceRoot }: Pick<SandboxPolicy, 'workspaceRoot'>): void {
    const isSystem = ['/proc', '/sys', '/dev'].some((path) => isWithin(workspaceRoot, path))
    if (!isSystem && !['/', '/run', this.#mounts.dataDirectory].includes(workspaceRoot)) return
    throw new SandboxError(`${workspaceRoot} cannot be a workspace`)
  }

  async isBroken(policy: SandboxPolicy): Promise<boolean> {
    return (await this.#probe(policy)) !== undefined
  }

  /** Runs `true` under the policy; what went wrong, else undefined. /proc/sys must not be writable even where the user could write it. */
  async #probe(policy: SandboxPolicy): Promise<string | undefined> {
    const check =
      'for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe; do [ ! -w "$f" ] || exit 9; done; exec true'
    const confined = this.confine(['/bin/sh', '-c', check], policy, { workdir: '/' })
    const { exitCode, stderr } = await this.#run(confined.argv, confined.env)
    if (exitCode === 0) return undefined
    if (exitCode === 9) return 'kernel settings stay writable under it'
    return stderr.trim().split('\n')[0] || `it ended with ${exitCode}`
  }

  /** Rejects with ProcessLostError alone. */
  async #run(argv: readonly string[], env: Confined['env'] = {}): Promise<{ exitCode: number | null; stderr: string }> {
    const handle = this.#options.subprocesses.spawn({
      argv: argv as [string, ...string[]],
      cwd: '/',
      stdin: 'ignore',
      stdout: { maxBytes: 1_024 },
      stderr: { maxBytes: 4_096 },
      graceMs: 1_000,
      signal: AbortSignal.timeout(probeMs),
      env
    })
    try {
      const { exitCode } = await handle.done
      return { exitCode, stderr: (await handle.collected.stderr?.readFrom(0))?.text ?? '' }
    } catch (error) {
      // That says nothing of the sandbox or the workspace.
      if (error instanceof ProcessLostError) throw error
      return { exitCode: null, stderr: String(error) }
    }
  }

  /** Drops to the sandbox's user, before bwrap. */
  #asUser(): string[] {
    const { setpriv } = this.#programs
    if (setpriv === undefined) return []
    const uid = String(this.#mounts.uid)
    return [setpriv, '--reuid', uid, '--regid', uid, '--clear-groups', '--no-new-privs', '--inh-caps=-all', '--']
  }

  /** All of it is seen inside, of bwrap itself too (/proc/1/environ), so bwrap is started with no more. */
  #environment(workspaceRoot: string): Confined['env'] {
    const passed = new Set([...passedVariables, ...this.#options.environment])
    const others = Object.keys(process.env).filter((name) => !passed.has(name))
    const named = this.#options.environment.map((name) => [name, process.env[name]] as const)
    return {
      ...Object.fromEntries(others.map((name) => [name, undefined])),
      ...Object.fromEntries(named),
      HOME: workspaceRoot
    }
  }
}
