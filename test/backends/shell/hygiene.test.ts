import { readdirSync } from 'node:fs'
import { expect, it } from 'vitest'
import { BashShell } from '../../../server/backends/shell/bash-shell.ts'
import { ManagedTrees } from '../../../server/backends/subprocess/managed-trees.ts'
import { ownChildren, processesWith, uniqueSleep } from '../../helpers/processes.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'

it(
  'leaves no process, zombie, descriptor or file behind after 100 mixed commands (R7)',
  { timeout: 60_000 },
  async () => {
    const [sleep, spillRoot] = [uniqueSleep(), temporaryDirectory()]
    const before = readdirSync('/proc/self/fd').length
    const trees = new ManagedTrees({ dataDirectory: spillRoot, spillRoot })
    const limits = { graceMs: 200, drainMs: 50, maxOutputBytes: 1000, maxSpillBytes: 100_000 }
    const shell = new BashShell(trees, { limits, cwd: spillRoot })
    const kinds: { command: string; timeoutMs?: number; abortAfterMs?: number }[] = [
      { command: 'true' },
      { command: 'echo out; echo err >&2; exit 3' },
      { command: `sleep ${sleep}`, timeoutMs: 50 },
      { command: `trap '' TERM; sleep ${sleep}; sleep ${sleep}`, timeoutMs: 50 },
      { command: `sleep ${sleep} & echo left` },
      { command: `setsid sleep ${sleep} & wait`, timeoutMs: 50 },
      { command: `setsid sleep ${sleep} > /dev/null 2>&1 & echo left` },
      { command: `(setsid bash -c '(sleep ${sleep} &); sleep ${sleep}' &); exit`, abortAfterMs: 30 },
      { command: 'kill -KILL $$' },
      { command: 'seq 1 10000' },
      { command: `yes ${sleep}`, timeoutMs: 50 },
      { command: `yes ${sleep}`, abortAfterMs: 20 },
      { command: 'exec no-such-program' },
      { command: `cat <(sleep ${sleep})`, abortAfterMs: 20 }
    ]
    const runs = Array.from({ length: 100 }, async (_, at) => {
      const { abortAfterMs, ...request } = kinds[at % kinds.length]!
      const signal = abortAfterMs === undefined ? new AbortController().signal : AbortSignal.timeout(abortAfterMs)
      if (at % 10 === 9) return shell.start(shell.resolve(request)).readOutput()
      return shell.run(shell.resolve(request), { signal, onOutput: () => {} })
    })
    const results = await Promise.all(runs)
    expect(results).toHaveLength(100)
    await trees.dispose()
    expect(processesWith(sleep)).toEqual([])
    expect(ownChildren()).toEqual([])
    expect(readdirSync(spillRoot).filter((name) => name.startsWith('toolwright-output'))).toEqual([])
    expect(readdirSync('/proc/self/fd').length).toBeLessThanOrEqual(before)
  }
)
