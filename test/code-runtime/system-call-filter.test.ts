import { describe, expect, it } from 'vitest'
import { systemCallFilter } from '../../server/code-runtime/system-call-filter.ts'

const [x64, arm64] = [0xc000003e, 0xc00000b7]
const [allowed, refused] = [0x7fff0000, 0x00050026]

/** What the kernel would make of a call: the words that the code loads are the number, the architecture and the first argument. */
function judge(code: Buffer, [architecture, number, argument]: readonly [number, number, number]): number {
  const words = new Map([
    [0, number],
    [4, architecture],
    [16, argument]
  ])
  let loaded = 0
  for (let line = 0; line < code.length / 8; line += 1) {
    const [operation, then, otherwise] = [code.readUInt16LE(8 * line), code[8 * line + 2]!, code[8 * line + 3]!]
    const value = code.readUInt32LE(8 * line + 4)
    const jump = (holds: boolean): void => void (line += holds ? then : otherwise)
    if (operation === 0x20) loaded = words.get(value)!
    else if (operation === 0x15) jump(loaded === value)
    else if (operation === 0x35) jump(loaded >= value)
    else if (operation === 0x45) jump((BigInt(loaded) & BigInt(value)) !== 0n)
    else return value
  }
  throw new Error('it ran out of its code')
}

describe('the filter of system calls', () => {
  it.each([
    ['x64', x64, { memfd: 319, shmget: 29, unshare: 272, clone3: 435, clone: 56, read: 0, mmap: 9, execve: 59 }],
    [
      'arm64',
      arm64,
      { memfd: 279, shmget: 194, unshare: 97, clone3: 435, clone: 220, read: 63, mmap: 222, execve: 221 }
    ]
  ] as const)('of %s refuses memory that is charged to nobody, and namespaces', (name, audit, numbers) => {
    const code = systemCallFilter(name)!
    for (const call of ['memfd', 'shmget', 'unshare', 'clone3'] as const) {
      expect([call, judge(code, [audit, numbers[call], 0])]).toEqual([call, refused])
    }
    for (const call of ['read', 'mmap', 'execve'] as const) {
      expect([call, judge(code, [audit, numbers[call], 0x10000000])]).toEqual([call, allowed])
    }
    // A thread, a fork; a user namespace, a mount namespace.
    for (const flags of [0x003d0f00, 0x01200011]) expect(judge(code, [audit, numbers.clone, flags])).toBe(allowed)
    for (const flags of [0x10000011, 0x00020011]) expect(judge(code, [audit, numbers.clone, flags])).toBe(refused)
  })

  it('refuses the numbers of other calling conventions, and is none where it knows no numbers', () => {
    const code = systemCallFilter('x64')!
    expect(judge(code, [0x40000003, 3, 0])).toBe(refused)
    expect(judge(code, [x64, 0x40000000 + 319, 0])).toBe(refused)
    expect(judge(code, [x64, 0xffffffff, 0])).toBe(refused)
    expect(systemCallFilter('ppc64')).toBeUndefined()
  })
})
