import type { Worker } from 'node:worker_threads'
import { expect, it, onTestFinished, vi } from 'vitest'
import { ManagedTrees } from '../../../server/backends/subprocess/managed-trees.ts'
import { SpawnError } from '../../../server/backends/subprocess/subprocess.ts'
import { processesWith, uniqueSleep } from '../../helpers/processes.ts'
import { until } from '../../helpers/until.ts'

const threads = vi.hoisted(() => [] as Worker[])

vi.mock('node:worker_threads', async (original) => {
  const actual = await original<typeof import('node:worker_threads')>()
  return {
    ...actual,
    Worker: class extends actual.Worker {
      constructor(...args: ConstructorParameters<typeof Worker>) {
        super(...args)
        threads.push(this)
      }
    }
  }
})

it('ends all processes when their thread is lost, and the next command has a new one', async () => {
  const sleep = uniqueSleep()
  const trees = new ManagedTrees({ dataDirectory: import.meta.dirname })
  onTestFinished(() => trees.dispose())
  const spec = { cwd: '/', stdin: 'ignore', stdout: { maxBytes: 10 }, stderr: 'pipe', graceMs: 300 } as const
  const handle = trees.spawn({ ...spec, argv: ['bash', '-c', `setsid sleep ${sleep} & sleep ${sleep}`] })
  await until(() => processesWith(`sleep ${sleep}`).length >= 2)
  await threads[0]!.terminate()
  await expect(handle.done).rejects.toThrow(SpawnError)
  expect(await handle.waitForExit()).toBe(true)
  await until(() => processesWith(sleep).length === 0)
  const next = trees.spawn({ ...spec, argv: ['echo', 'hi'] })
  expect(await next.done).toEqual({ exitCode: 0, signal: null })
  expect((await next.collected.stdout!.readFrom(0)).text).toBe('hi\n')
  expect(threads).toHaveLength(2)
})
