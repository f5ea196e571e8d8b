import { describe, expect, it } from 'vitest'
import { openWorkerRuntime } from '../../../server/code-runtime/worker/worker-runtime.ts'
import { describeContract } from '../contract.ts'

describe('the worker-thread runtime', () => {
  // code-mode.md §15.1: what a thread of the server's own process cannot contain.
  describeContract(openWorkerRuntime, {
    '§0 an allocation that V8 aborts the process for': 'it aborts the server',
    'memory outside the heap': 'the cap of a thread covers the JavaScript heap alone',
    'a nested worker is charged': 'its time is no busy time of the thread',
    'a thread blocked in a system call': 'it cannot be ended before the call returns',
    'signals to its own process, and to its parent': 'the process is the server',
    'output past the console comes after it': 'a write to descriptor 1 goes to the server’s own output'
  })

  it('says what it is, and that it contains nothing', async () => {
    const runtime = await openWorkerRuntime({ spareWorlds: 0 })
    expect([runtime.language, runtime.isolation]).toEqual(['typescript', 'worker-thread'])
    expect(runtime.containment).toEqual({ pidNamespace: false, ownUser: false, limits: false })
    await runtime.dispose()
  })

  it(
    '§14.4 counts a world that does not end, and takes no more programs when there are several',
    { timeout: 60_000 },
    async () => {
      const runtime = await openWorkerRuntime({ spareWorlds: 0, maxWallMs: 400, terminateGraceMs: 50 })
      const program = "const { execFileSync } = await import('node:child_process'); execFileSync('/bin/sleep', ['4'])"
      const run = (text: string) => runtime.run({ program: text, bindings: [] })
      const outcomes = await Promise.all(Array.from({ length: 5 }, () => run(program)))
      expect(outcomes.map(({ error }) => error?.kind)).toEqual(Array.from({ length: 5 }, () => 'timeout'))
      await expect.poll(() => runtime.load().stuck, { timeout: 5_000 }).toBeGreaterThan(3)
      await expect(run('return 1')).rejects.toMatchObject({ code: 'OVERLOADED' })
      await expect.poll(() => runtime.load().stuck, { timeout: 20_000 }).toBe(0)
      await runtime.dispose()
    }
  )
})
