import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

/** What a server and all that it started hold of the system, without the numbers that differ each time. */
export interface Holdings {
  /** What each open descriptor of its own two processes is: a path, `socket`, `pipe`. */
  descriptors: string[]
  /** Its descendants, zombies too: state and command line. */
  descendants: string[]
}

export function holdingsOf(pid: number): Holdings {
  const descendants = descendantsOf(pid)
  return {
    descriptors: [pid, ...descendants.flatMap(hostPid)].flatMap(descriptorsOf).toSorted(),
    descendants: descendants.map(({ state, command }) => `${state === 'Z' ? 'zombie' : 'live'} ${command}`).toSorted()
  }
}

function descriptorsOf(pid: number): string[] {
  const all = ofProc(() => readdirSync(`/proc/${pid}/fd`), []).flatMap((fd) =>
    ofProc(() => [readlinkSync(`/proc/${pid}/fd/${fd}`).replace(/:?\[?\d+\]?$/, '')], [])
  )
  // Pipes that are ready for outputs to come have both ends open, and their number changes; of one in use, or left behind, it is one end.
  return all.filter((path) => !path.includes('/toolwright-pipes-') || all.indexOf(path) === all.lastIndexOf(path))
}

interface Process {
  pid: number
  parent: number
  state: string
  command: string
}

function descendantsOf(pid: number): Process[] {
  const read = (name: string): Process[] => {
    const stat = readFileSync(`/proc/${name}/stat`, 'latin1')
    const [state = '', parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()
    return [{ pid: Number(name), parent: Number(parent), state, command }]
  }
  const all = readdirSync('/proc')
    .filter((name) => /^[0-9]+$/.test(name))
    .flatMap((name) => ofProc(() => read(name), []))
  const below = (one: number): Process[] =>
    all.filter(({ parent }) => parent === one).flatMap((child) => [child, ...below(child.pid)])
  return below(pid)
}

/** A process or descriptor may be gone since it was listed. */
function ofProc<T>(read: () => T, gone: T): T {
  try {
    return read()
  } catch {
    return gone
  }
}

/** What is in `after` and was not in `before`; of equal ones, those that are more. */
export function more(after: readonly string[], before: readonly string[]): string[] {
  const left = [...before]
  return after.filter((one) => {
    const at = left.indexOf(one)
    if (at >= 0) left.splice(at, 1)
    return at < 0
  })
}

/** The process that starts the commands lives as long as the server. */
const hostPid = ({ pid, command }: Process): number[] => (command.includes('tree-host') ? [pid] : [])

/** Bytes of memory that a process and those that live as long have in use now. */
export function memoryOf(pid: number): number {
  const pids = [pid, ...descendantsOf(pid).flatMap(hostPid)]
  return pids.reduce((sum, one) => sum + residentBytes(one), 0)
}

function residentBytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024
}
