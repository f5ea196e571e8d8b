import { realpath } from 'node:fs/promises'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Files } from '../../server/backends/files/files.ts'
import { LocalFiles } from '../../server/backends/files/local-files.ts'
import { Observations } from '../../server/backends/files/observations.ts'
import type { Workspaces } from '../../server/backends/files/workspaces.ts'
import { BashShell } from '../../server/backends/shell/bash-shell.ts'
import type { Shell } from '../../server/backends/shell/shell.ts'
import { LocalSpill } from '../../server/backends/spill/local-spill.ts'
import type { SpillStore } from '../../server/backends/spill/spill.ts'
import { ManagedTrees } from '../../server/backends/subprocess/managed-trees.ts'
import type { Subprocesses } from '../../server/backends/subprocess/subprocess.ts'
import type { Config } from '../../server/config/schema.ts'
import type { Services } from '../../server/services.ts'
import { Session } from '../../server/sessions/session.ts'

declare module '../../server/services.ts' {
  interface Services {
    subprocesses: Subprocesses
    shell: Shell
    files: Files
    observations: Observations
    spill: SpillStore
    workspaces: Workspaces
  }
}

declare module 'fastify' {
  interface FastifyInstance extends Services {}
}

/** The backends that tools stand on, as services; closing ends every process tree, then waits for all of them to be gone. */
export const backends = fp(
  async (fastify: FastifyInstance, { config }: { config: Config }) => {
    const dataDirectory = await realpath(config.home)
    const startDirectory = await realpath(process.cwd())
    const subprocesses = new ManagedTrees({ dataDirectory })
    const spill = new LocalSpill(join(dataDirectory, 'spill'))
    const { executor: _executor, ...limits } = config.shell
    fastify.decorate('subprocesses', subprocesses)
    fastify.decorate('shell', new BashShell(subprocesses, { limits, cwd: startDirectory }))
    fastify.decorate('files', new LocalFiles({ dataDirectory }))
    fastify.decorate('observations', new Observations())
    fastify.decorate('spill', spill)
    fastify.decorate('workspaces', {
      home: dataDirectory,
      // A session without a directory of its own works where the server was started (reliability.md, decisions).
      cwdOf: (agent) => (agent instanceof Session ? agent.cwd : undefined) ?? startDirectory,
      spillDirectoryOf: (agent) => (agent instanceof Session ? spill.directoryOf(agent.id) : undefined)
    })
    fastify.addHook('onClose', () => subprocesses.dispose())
    // Before anything new runs: what a killed server left may still be at work in the same directories (reliability.md R8).
    const ended = await subprocesses.endStrays()
    if (ended > 0) fastify.log.warn({ processes: ended }, 'processes that the last server left behind were ended')
  },
  { name: 'backends', fastify: '5.x' }
)
