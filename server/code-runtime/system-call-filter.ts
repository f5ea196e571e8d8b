import { constants, endianness } from 'node:os'

/** What the filter knows of an architecture: its number in the kernel's audit, and its numbers of the system calls. */
interface Architecture {
  readonly audit: number
  readonly clone: number
  readonly refused: readonly number[]
}

/**
 * Memory that no process is charged for until it maps it: a program held 800 MB of it under a `maxRssMb` of 300. Namespaces of its own
 * would let it mount file systems in memory. The order: memfd_create, memfd_secret, shmget, msgget, mq_open,
 * unshare, and clone3, whose flags no filter can see; C libraries take clone instead.
 */
const architectures: Partial<Record<NodeJS.Architecture, Architecture>> = {
  x64: { audit: 0xc000003e, clone: 56, refused: [319, 447, 29, 68, 240, 272, 435] },
  arm64: { audit: 0xc00000b7, clone: 220, refused: [279, 447, 194, 186, 180, 97, 435] }
}

/** The CLONE_NEW… flags. */
const newNamespaces = 0x7e020000
/** Numbers of x64 from here on are those of its other calling convention, x32. */
const x32 = 0x40000000

const [loadWord, jumpEqual, jumpAtLeast, jumpAnyBit, answer] = [0x20, 0x15, 0x35, 0x45, 0x06]
/** Where `struct seccomp_data` has the number, the architecture, and the first argument. */
const at = { number: 0, architecture: 4, argument: 16 }
const allowed = 0x7fff0000
const notImplemented = 0x00050000 | constants.errno.ENOSYS

/** A seccomp filter for `bwrap --seccomp`: as BPF code; undefined for an architecture whose numbers are not known here. */
export function systemCallFilter(architecture: NodeJS.Architecture = process.arch): Buffer | undefined {
  const known = architectures[architecture]
  if (known === undefined || endianness() !== 'LE') return undefined
  const { audit, clone, refused } = known
  const length = refused.length + 9
  const allow = length - 2
  const refuse = length - 1
  const code = Buffer.alloc(8 * length)
  let line = 0
  /** Jumps go to a line; without one, to the next. */
  const add = (operation: number, value: number, then = line + 1, otherwise = line + 1): void => {
    code.writeUInt16LE(operation, 8 * line)
    code.writeUInt8(then - line - 1, 8 * line + 2)
    code.writeUInt8(otherwise - line - 1, 8 * line + 3)
    code.writeUInt32LE(value, 8 * line + 4)
    line += 1
  }
  add(loadWord, at.architecture)
  add(jumpEqual, audit, undefined, refuse)
  add(loadWord, at.number)
  add(jumpAtLeast, x32, refuse)
  for (const number of refused) add(jumpEqual, number, refuse)
  add(jumpEqual, clone, undefined, allow)
  add(loadWord, at.argument)
  add(jumpAnyBit, newNamespaces, refuse, allow)
  add(answer, allowed)
  add(answer, notImplemented)
  return code
}
