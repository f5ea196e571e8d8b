import type { ChildProcess } from 'node:child_process'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { Worker } from 'node:worker_threads'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { CodeRuntime } from '../../server/code-runtime/code-runtime.ts'
import { openProcessRuntime } from '../../server/code-runtime/process/process-runtime.ts'
import { openPythonRuntime } from '../../server/code-runtime/python/python-runtime.ts'
import { openWorkerRuntime } from '../../server/code-runtime/worker/worker-runtime.ts'
import { descendants, fixtureFunctions, runProgram, toolsBinding } from '../helpers/code-runtime.ts'
import { until } from '../helpers/until.ts'

const backends: [string, () => Promise<CodeRuntime>, program: string, holder: string][] = [
  ['process', () => openProcessRuntime({ spareWorlds: 1 }), 'await tools.seen(1); for (;;) {}', 'process'],
  ['worker-thread', () => openWorkerRuntime({ spareWorlds: 1 }), 'await tools.seen(1); for (;;) {}', 'thread'],
  ['python', () => openPythonRuntime({ spareWorlds: 1 }), 'await tools.seen(1)\nwhile True: pass', 'process']
]

/** Processes below this one that run. */
function running(): number[] {
  return descendants().filter((pid) => {
    try {
      return !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'latin1'))
    } catch {
      return false
    }
  })
}

describe.each(backends)('the death of what holds the worlds, %s backend', (name, open, spin, holder) => {
  // Node tells of each thread and each process that is started.
  let keepers: (Worker | ChildProcess)[]
  const noteThread = (thread: Worker) => keepers.push(thread)
  const noteProcess = (message: unknown) => keepers.push((message as { process: ChildProcess }).process)
  let runtime: CodeRuntime
  let before: number[]

  beforeEach(async () => {
    keepers = []
    before = running()
    if (holder === 'thread') process.on('worker', noteThread)
    else subscribe('child_process', noteProcess)
    runtime = await open()
  })
  afterEach(async () => {
    process.off('worker', noteThread)
    unsubscribe('child_process', noteProcess)
    await runtime.dispose()
  })

  /** The keeper is the last that a runtime starts. */
  async function killKeeper(): Promise<void> {
    const keeper = keepers.at(-1)!
    if ('terminate' in keeper) return void (await keeper.terminate())
    const exited = once(keeper, 'exit')
    keeper.kill('SIGKILL')
    await exited
  }

  it('fails its runs clearly, the next program works, and no world is left', { timeout: 60_000 }, async () => {
    for (let round = 0; round < 2; round += 1) {
      let calls = 0
      const functions = fixtureFunctions({ seen: async () => (calls += 1) })
      const runs = [1, 2].map(() => runProgram(runtime, spin, { bindings: [toolsBinding(functions)] }))
      await until(() => calls === 2, 30_000)
      const worlds = running().filter((pid) => !before.includes(pid))
      await killKeeper()
      // Given to the new keeper before that is open.
      const next = runProgram(runtime, 'return 1')
      for (const outcome of await Promise.all(runs)) {
        expect(outcome).toEqual({
          logs: [],
          error: {
            kind: 'worker-exit',
            message: expect.stringContaining(`The ${holder} that holds the programs ended`)
          }
        })
      }
      await expect(next).resolves.toEqual({ logs: [], value: 1 })
      await until(() => running().every((pid) => !worlds.includes(pid)))
    }
    expect(runtime.load()).toMatchObject({ running: 0, queued: 0, stuck: 0 })
  })

  it('whose disposal comes right after a program has its result: no world is left', { timeout: 60_000 }, async () => {
    const left = await runProgram(runtime, name === 'python' ? 'return 1' : 'setInterval(() => {}, 1); return 1')
    expect(left).toEqual({ value: 1, logs: [] })
    await runtime.dispose()
    expect(running()).toEqual(before)
  })

  it('again and again: runs fail at once when no keeper is left, and disposal ends', { timeout: 60_000 }, async () => {
    for (let started = 0; started < keepers.length;) {
      started = keepers.length
      await killKeeper()
    }
    await expect(runProgram(runtime, 'return 1')).resolves.toMatchObject({ error: { kind: 'worker-exit' } })
    await runtime.dispose()
    await until(() => running().every((pid) => before.includes(pid)))
  })
})
