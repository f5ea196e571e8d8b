import { chmodSync, chownSync, mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import { type BwrapOptions, BwrapSandbox } from '../../server/backends/sandbox/bwrap-sandbox.ts'
import type { SandboxLimits } from '../../server/backends/sandbox/bwrap-arguments.ts'
import { ManagedTrees } from '../../server/backends/subprocess/managed-trees.ts'

/** Whom commands run as where the tests run as root. */
export const sandboxUid = 61_100

export const testLimits: SandboxLimits = {
  network: 'host',
  maxProcesses: 64,
  maxOpenFiles: 256,
  maxFileBytes: 1_000_000,
  maxMemoryBytes: 0,
  maxTmpBytes: 2_000_000
}

/** Directories and a process service for the sandboxes of one test file; all is gone after it. */
export function sandboxGround() {
  // Not below /tmp, which in a sandbox is another one.
  const base = realpathSync(mkdtempSync('/var/tmp/toolwright-sandbox-'))
  chmodSync(base, 0o755)
  const directory = (name: string, owner?: number): string => {
    const path = join(base, name)
    mkdirSync(path, { recursive: true })
    if (owner !== undefined && process.getuid?.() === 0) chownSync(path, owner, owner)
    return path
  }
  const dataDirectory = directory('data')
  const trees = new ManagedTrees({ dataDirectory })
  afterAll(async () => {
    await trees.dispose()
    rmSync(base, { recursive: true, force: true })
  })
  return {
    trees,
    dataDirectory,
    /** A directory that commands may write in. */
    workspace: (name: string) => directory(name, sandboxUid),
    directory,
    open: (limits: Partial<SandboxLimits> = {}, more: Partial<BwrapOptions> = {}) =>
      BwrapSandbox.open({
        subprocesses: trees,
        dataDirectory,
        uid: sandboxUid,
        environment: [],
        limits: { ...testLimits, ...limits },
        ...more
      })
  }
}
