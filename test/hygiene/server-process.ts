import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

/** What a process and its children hold of the system, without the numbers that differ each time. */
export interface Holdings {
  /** What each open descriptor is: a path, `socket`, `pipe`. */
  descriptors: string[]
  /** The children, zombies too: state and command line. */
  children: string[]
}

export function holdingsOf(pid: number): Holdings {
  const children = childrenOf(pid)
  return {
    descriptors: [pid, ...children.map((child) => child.pid)].flatMap(descriptorsOf).toSorted(),
    children: children.map(({ state, command }) => `${state === 'Z' ? 'zombie' : 'live'} ${command}`).toSorted()
  }
}

function descriptorsOf(pid: number): string[] {
  return ofProc(() => readdirSync(`/proc/${pid}/fd`), []).flatMap((fd) =>
    ofProc(() => [readlinkSync(`/proc/${pid}/fd/${fd}`).replace(/:?\[?\d+\]?$/, '')], [])
  )
}

function childrenOf(pid: number): { pid: number; state: string; command: string }[] {
  const read = (child: string) => {
    const stat = readFileSync(`/proc/${child}/stat`, 'latin1')
    const [state = '', parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const command = readFileSync(`/proc/${child}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()
    return Number(parent) === pid ? [{ pid: Number(child), state, command }] : []
  }
  return readdirSync('/proc')
    .filter((name) => /^[0-9]+$/.test(name))
    .flatMap((child) => ofProc(() => read(child), []))
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

/** Bytes of memory that a process has in use now. */
export function memoryOf(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024
}
