import { realpathSync, type Stats, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { ConfineOptions, SandboxPolicy } from './sandbox.ts'
import { isWithin, temporaryRoots } from './write-fence.ts'

/** What the commands of a sandbox get besides files. Sizes in bytes; limits are those of one command's processes. */
export interface SandboxLimits {
  network: 'host' | 'none'
  maxProcesses: number
  maxOpenFiles: number
  /** Of one file. */
  maxFileBytes: number
  /** Address space of a process; 0 is no limit. */
  maxMemoryBytes: number
  /** Of the private /tmp. */
  maxTmpBytes: number
}

export interface MountOptions {
  /** Canonical; commands find it empty. */
  dataDirectory: string
  /** Files and directories, canonical, that commands find empty too. */
  hiddenPaths: readonly string[]
  /** The user that commands run as, where it is another than the server's. */
  uid: number | undefined
  limits: SandboxLimits
  /** bwrap before 0.8 has no --disable-userns. */
  canDisableUserns: boolean
}

/** Shared memory is memory; a private /dev/shm needs some. */
const sharedMemoryBytes = 64 * 1024 * 1024

/**
 * bwrap's arguments for a policy, up to the command (backends.md §11.2, reliability.md §6). A later mount covers an earlier one; what
 * is made read-only is so at the end, for bwrap makes mount points in it until then.
 */
export function bwrapArguments(policy: SandboxPolicy, options: ConfineOptions, mounts: MountOptions): string[] {
  const { mode, workspaceRoot } = policy
  const { dataDirectory, hiddenPaths, uid, limits, canDisableUserns } = mounts
  const { isTerminal = false, readsTmp = false, workdir } = options
  const isReadOnly = mode === 'read-only' || readsTmp
  const [tmp] = temporaryRoots()
  const hidden = [dataDirectory, ...hiddenPaths].filter((path) => isReachable(path, uid))
  // What the workspace is in comes before it, what is in the workspace after it.
  const [around, others] = [
    hidden.filter((path) => isWithin(workspaceRoot, path)),
    hidden.filter((path) => !isWithin(workspaceRoot, path))
  ]
  const workspace = [isReadOnly ? '--ro-bind' : '--bind', workspaceRoot, workspaceRoot]
  const readOnly = ['/dev', '/run', ...(isReadOnly && !readsTmp ? [tmp!] : []), ...hidden.filter(isDirectory)]
  return [
    ...['--unshare-user', '--unshare-pid', '--unshare-ipc', '--unshare-uts', '--unshare-cgroup-try'],
    ...(canDisableUserns ? ['--disable-userns'] : []),
    ...(limits.network === 'none' ? ['--unshare-net'] : []),
    ...['--die-with-parent', '--cap-drop', 'ALL'],
    ...(isTerminal ? [] : ['--new-session']),
    ...['--ro-bind', '/', '/', '--proc', '/proc', '--ro-bind', '/proc/sys', '/proc/sys'],
    ...['--dev', '/dev', '--size', String(sharedMemoryBytes), '--tmpfs', '/dev/shm'],
    // Its sockets are reached through a read-only mount too, and who may talk to a container engine's owns the machine.
    ...['--size', '4096', '--tmpfs', '/run', ...resolverMount()],
    ...(readsTmp ? [] : ['--size', String(limits.maxTmpBytes), '--tmpfs', tmp!]),
    ...around.flatMap(emptyMount),
    ...workspace,
    ...others.flatMap(emptyMount),
    ...readOnly.flatMap((path) => ['--remount-ro', path]),
    ...['--chdir', workdir, '--']
  ]
}

const emptyMount = (path: string): string[] =>
  isDirectory(path) ? ['--size', '4096', '--tmpfs', path] : ['--ro-bind', '/dev/null', path]

const isDirectory = (path: string): boolean => statOf(path)?.isDirectory() === true

function statOf(path: string): Stats | undefined {
  try {
    return statSync(path)
  } catch {
    return undefined
  }
}

/** Of /run only what names are resolved with stays, where /etc/resolv.conf points into it. */
function resolverMount(): string[] {
  try {
    const directory = dirname(realpathSync('/etc/resolv.conf'))
    return directory !== '/run' && isWithin(directory, '/run') ? ['--ro-bind', directory, directory] : []
  } catch {
    return []
  }
}

/** Mounting over what the user cannot reach, or what is not there, fails; it need not be hidden either. `undefined` is the server's own user. */
function isReachable(path: string, uid: number | undefined): boolean {
  if (statOf(path) === undefined) return false
  if (uid === undefined) return true
  for (let at = dirname(path); ; at = dirname(at)) {
    const { mode, uid: owner, gid: group } = statSync(at)
    const bit = owner === uid ? 0o100 : group === uid ? 0o010 : 0o001
    if ((mode & bit) === 0) return false
    if (at === dirname(at)) return true
  }
}
