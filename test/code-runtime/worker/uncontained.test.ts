import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { RunResult } from '../../../server/code-runtime/code-runtime.ts'

const script = join(import.meta.dirname, '../../fixtures/programs/server-with-a-thread.ts')

interface Fate {
  outcome: RunResult | undefined
  signal: string | undefined
  output: string
}

/** Runs a program in a thread of a server of its own. */
function fateOf(program: string, budgets: object = {}): Promise<Fate> {
  return new Promise((resolve) => {
    const line = ['--import', 'tsx', script, JSON.stringify(budgets), program]
    execFile(process.execPath, line, (error, stdout) => {
      const outcome = /^outcome (.*)$/m.exec(stdout)?.[1]
      resolve({
        outcome: outcome === undefined ? undefined : (JSON.parse(outcome) as RunResult),
        signal: error?.signal ?? undefined,
        output: stdout
      })
    })
  })
}

// Should one of these fail, a thread contains more than docs/code-mode.md says: then the contract can be run on it (worker-runtime.test.ts).
describe('what a thread of the server does not contain (code-mode.md §15.1)', () => {
  it('an allocation that V8 aborts the process for ends the server', async () => {
    // Node 20 does so at this limit already; later versions at that of an array.
    const isOld = Number.parseInt(process.versions.node, 10) < 22
    const { outcome, signal } = isOld
      ? await fateOf('const m = new Map(); for (let n = 0; ; n += 1) m.set(n, n)', { maxOldGenerationSizeMb: 64 })
      : await fateOf('const a=[]; for(;;) a.push(1)')
    expect([outcome, signal]).toEqual([undefined, expect.stringMatching(/SIG(ABRT|TRAP|ILL)/)])
  })

  it('a signal to its own process ends the server', async () => {
    const { outcome, signal } = await fateOf("process.kill(process.pid, 'SIGKILL'); await new Promise(() => {})")
    expect([outcome, signal]).toEqual([undefined, 'SIGKILL'])
  })

  it('memory outside the JavaScript heap is not limited', async () => {
    const program = 'const a = []; for (let n = 0; n < 400; n += 1) a.push(Buffer.alloc(1 << 20, 1)); return a.length'
    const { outcome } = await fateOf(program, { maxOldGenerationSizeMb: 64, maxRssMb: 300 })
    expect(outcome).toEqual({ logs: [], value: 400 })
  })

  it('the time of a nested worker is not charged: the wall clock ends it', async () => {
    const program =
      "const { Worker } = await import('node:worker_threads'); new Worker('for (;;);', { eval: true }); await new Promise(() => {})"
    const { outcome } = await fateOf(program, { computeMs: 1_000, maxWallMs: 4_000 })
    expect(outcome?.error).toEqual({ kind: 'timeout', message: expect.stringContaining('maxWallMs') })
  })

  it('what is written to descriptor 1 is the server’s own output', async () => {
    const { outcome, output } = await fateOf("(await import('node:fs')).writeSync(1, 'past the console\\n'); return 1")
    expect(outcome).toEqual({ logs: [], value: 1 })
    expect(output).toContain('past the console')
  })
})
