import { realpath } from 'node:fs/promises'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Files } from '../../server/backends/files/files.ts'
import { LocalFiles } from '../../server/backends/files/local-files.ts'
import { Observations } from '../../server/backends/files/observations.ts'
import type { Workspaces } from '../../server/backends/files/workspaces.ts'
import { Ripgrep } from '../../server/backends/search/ripgrep.ts'
import type { Search } from '../../server/backends/search/search.ts'
import { BwrapSandbox } from '../../server/backends/sandbox/bwrap-sandbox.ts'
import { PrivateWorkspaces } from '../../server/backends/sandbox/private-workspaces.ts'
import {
  type Sandbox,
  SandboxError,
  type SandboxMode,
  unavailableSandbox
} from '../../server/backends/sandbox/sandbox.ts'
import { BashShell } from '../../server/backends/shell/bash-shell.ts'
import { PwshShell } from '../../server/backends/shell/pwsh-shell.ts'
import type { ShellOptions } from '../../server/backends/shell/command-shell.ts'
import { SandboxShell } from '../../server/backends/shell/sandbox-shell.ts'
import type { Shell } from '../../server/backends/shell/shell.ts'
import { LocalSpill } from '../../server/backends/spill/local-spill.ts'
import type { SpillStore } from '../../server/backends/spill/spill.ts'
import { ManagedTrees } from '../../server/backends/subprocess/managed-trees.ts'
import type { Subprocesses } from '../../server/backends/subprocess/subprocess.ts'
import type { Config } from '../../server/config/schema.ts'
import { shellExecutor } from '../../server/config/shell-executor.ts'
import type { Services } from '../../server/services.ts'
import { Session } from '../../server/sessions/session.ts'

declare module '../../server/services.ts' {
  interface Services {
    subprocesses: Subprocesses
    shell: Shell
    files: Files
    observations: Observations
    fileSearch: Search
    spill: SpillStore
    workspaces: Workspaces
  }
}

declare module 'fastify' {
  interface FastifyInstance extends Services {
    /** What confines commands; undefined where nothing does (`bash-local`, `pwsh-local`). */
    sandbox: Sandbox | undefined
    privateWorkspaces: PrivateWorkspaces
  }
}

/** The backends that tools stand on, as services; closing ends every process tree, then waits for all of them to be gone. */
export const backends = fp(
  async (fastify: FastifyInstance, { config }: { config: Config }) => {
    const dataDirectory = await realpath(config.home)
    const startDirectory = await realpath(process.cwd())
    const subprocesses = new ManagedTrees({ dataDirectory })
    const spill = new LocalSpill(join(dataDirectory, 'spill'))
    fastify.decorate('subprocesses', subprocesses)
    const closedPaths = await canonical([config.auth.tokenFile, ...config.sandbox.hidden])
    const sandbox = await openSandbox(fastify, config, { dataDirectory, hiddenPaths: closedPaths })
    fastify.decorate('sandbox', sandbox)
    const privateWorkspaces = new PrivateWorkspaces({
      subprocesses,
      dataDirectory,
      uid: sandbox instanceof BwrapSandbox ? sandbox.uid : undefined
    })
    fastify.decorate('privateWorkspaces', privateWorkspaces)
    const { executor: _executor, ...limits } = config.shell
    const options = { limits, cwd: startDirectory }
    // Where commands are to be confined and cannot be, there is no shell, and so no bash.
    if (shellExecutor(config) === 'pwsh-local') fastify.decorate('shell', await openPwsh(subprocesses, options))
    else if (sandbox === undefined) fastify.decorate('shell', new BashShell(subprocesses, options))
    else if (sandbox instanceof BwrapSandbox)
      fastify.decorate('shell', new SandboxShell(subprocesses, sandbox, options))
    const { readRoots } = config.files
    const files = new LocalFiles({
      dataDirectory,
      closedPaths,
      ...(readRoots.length > 0 && { readRoots: await canonical(readRoots) }),
      mayWrite: (path, agent, granted) => fastify.sandboxPolicies.mayWrite(path, agent, granted as SandboxMode)
    })
    fastify.decorate('files', files)
    fastify.decorate('observations', new Observations())
    fastify.decorate('fileSearch', new Ripgrep(subprocesses, config.search))
    fastify.decorate('spill', spill)
    fastify.decorate('workspaces', {
      home: dataDirectory,
      // A session without a directory of its own works where the server was started, or, confined, in a private one (reliability.md,
      // decisions).
      cwdOf: (agent) => {
        const session = agent instanceof Session ? agent : undefined
        if (session?.cwd !== undefined) return session.cwd
        return sandbox === undefined ? startDirectory : privateWorkspaces.directoryOf(session?.id)
      },
      spillDirectoryOf: (agent) => (agent instanceof Session ? spill.directoryOf(agent.id) : undefined)
    })
    fastify.addHook('onClose', () => subprocesses.dispose())
    // Before anything new runs: what a killed server left may still be at work in the same directories (reliability.md R8).
    const ended = await subprocesses.endStrays()
    if (ended > 0) fastify.log.warn({ processes: ended }, 'processes that the last server left behind were ended')
  },
  { name: 'backends', fastify: '5.x' }
)

/** Who asks for PowerShell gets it, or no server. */
async function openPwsh(subprocesses: Subprocesses, options: ShellOptions): Promise<Shell> {
  try {
    return await PwshShell.open(subprocesses, options)
  } catch (error) {
    throw new Error(`shell.executor is pwsh-local, and ${(error as Error).message}`, { cause: error })
  }
}

/** Where the paths that are there really are. */
async function canonical(paths: readonly (string | undefined)[]): Promise<string[]> {
  const found = await Promise.all(
    paths.map(async (path) => (path === undefined ? undefined : realpath(path).catch(() => undefined)))
  )
  return found.filter((path) => path !== undefined)
}

/** The sandbox that the configuration asks for, if it does. One that does not work here stands for itself: it refuses (backends.md §11.2). */
async function openSandbox(
  { subprocesses, health, log }: FastifyInstance,
  config: Config,
  paths: { dataDirectory: string; hiddenPaths: readonly string[] }
): Promise<Sandbox | undefined> {
  if (shellExecutor(config) !== 'bash-sandbox') return undefined
  const {
    uid,
    environment,
    required: _required,
    mode: _mode,
    scopes: _scopes,
    hidden: _hidden,
    ...limits
  } = config.sandbox
  try {
    const sandbox = await BwrapSandbox.open({ subprocesses, ...paths, uid, environment, limits })
    log.info({ sandbox: sandbox.name, uid: sandbox.uid, network: limits.network }, 'commands are confined')
    return sandbox
  } catch (error) {
    if (!(error instanceof SandboxError)) throw error
    log.error({ err: error }, 'commands cannot be confined, so there is no bash')
    health.addCheck('sandbox', () => `there is no bash: ${error.message}`)
    return unavailableSandbox(error.message)
  }
}
