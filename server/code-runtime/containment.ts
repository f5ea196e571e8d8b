import { accessSync, constants, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Launch } from './keeper/messages.ts'
import { systemCallFilter } from './system-call-filter.ts'

/** User ids that a root server gives to worlds, one each in turn, so that no two at work share one. */
const worldUsers = { first: 61_200, count: 4_000 }

/** Kernel limits of one world: open files, bytes of a file, no core dumps; processes and threads where it has a user of its own. */
const fileLimits = ['--core=0', '--nofile=1024', '--fsize=268435456']
const processLimit = '--nproc=512'

/** The folder of this code, which every world runs from. */
const ownCode = dirname(fileURLToPath(import.meta.url))

/** Bytes of the private /tmp that a world in a namespace has. */
const privateTmpBytes = 67_108_864

/**
 * The ways to start a world's process, the most contained first (code-mode.md §15.2): in a PID namespace of its own, under a user of
 * its own where the server is root, and with kernel limits. Never bwrap as real root: its payload would keep root's rights over
 * /proc/sys. `hiddenPaths` are directories and files that a world in a namespace finds empty.
 */
export function launchesOf(command: string, args: readonly string[], hiddenPaths: readonly string[] = []): Launch[] {
  const bwrap = executable('/usr/bin/bwrap', '/usr/local/bin/bwrap', '/bin/bwrap')
  const prlimit = executable('/usr/bin/prlimit', '/bin/prlimit')
  const users = process.getuid?.() === 0 ? worldUsers : undefined
  const limits = prlimit && [prlimit, ...fileLimits, ...(users ? [processLimit] : []), '--']
  const launch = (line: readonly string[], pidNamespace: boolean, hasLimits: boolean, ownUser: boolean): Launch => ({
    containment: { pidNamespace, ownUser, limits: hasLimits },
    command: line[0]!,
    args: line.slice(1),
    users: ownUser ? users : undefined,
    cwd: '/'
  })
  const program = [command, ...args]
  const ways: Launch[] = []
  if (bwrap !== undefined) {
    const hidden = hiddenPaths.filter(
      // What lies in a hidden directory is gone with it.
      (path) => isReachable(path, users !== undefined) && !hiddenPaths.some((other) => path.startsWith(`${other}/`))
    )
    const contained = [...namespaceArgs(hidden), ...program]
    const filter = systemCallFilter()?.toString('base64')
    const namespaced = (before: readonly string[], hasLimits: boolean): void => {
      const way = (options: readonly string[]): Launch =>
        launch([...before, bwrap, ...options, ...contained], true, hasLimits, users !== undefined)
      // A kernel may have no filters.
      if (filter !== undefined) ways.push({ ...way(['--seccomp', '5']), input: filter })
      ways.push(way([]))
    }
    if (limits) namespaced(limits, true)
    namespaced([], false)
  }
  if (users !== undefined) {
    if (limits) ways.push(launch([...limits, ...program], false, true, true))
    ways.push(launch(program, false, false, true))
  }
  ways.push(launch(program, false, false, false))
  return ways
}

/** The file system is read-only, save for a small /tmp: what a program wants to change, it changes through a tool. */
function namespaceArgs(hiddenPaths: readonly string[]): string[] {
  return [
    ...['--unshare-pid', '--unshare-ipc', '--die-with-parent', '--ro-bind', '/', '/'],
    ...['--dev', '/dev', '--remount-ro', '/dev', '--proc', '/proc'],
    ...['--size', String(privateTmpBytes), '--tmpfs', '/tmp'],
    // A server that is itself installed below /tmp: its worlds must still find their program.
    ...(ownCode.startsWith('/tmp/') ? ['--ro-bind', ownCode, ownCode] : []),
    ...hiddenPaths.flatMap((path) =>
      statSync(path).isDirectory()
        ? ['--size', '4096', '--tmpfs', path, '--remount-ro', path]
        : ['--ro-bind', '/dev/null', path]
    ),
    ...['--chdir', '/tmp', '--']
  ]
}

/**
 * Whether a world would find the path. Mounting over one that its user cannot reach would fail, and the world with it.
 */
function isReachable(path: string, byOthers: boolean): boolean {
  try {
    const directory = statSync(path).isDirectory() ? path : dirname(path)
    for (let at = directory; byOthers && at !== dirname(at); at = dirname(at))
      if ((statSync(at).mode & 0o001) === 0) return false
    return true
  } catch {
    return false
  }
}

function executable(...paths: string[]): string | undefined {
  return paths.find((path) => {
    try {
      accessSync(path, constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}
