import type { MessagePort, Worker } from 'node:worker_threads'
import { beforeEach, expect, it, onTestFinished, vi } from 'vitest'
import { ManagedTrees } from '../../../server/backends/subprocess/managed-trees.ts'
import type { FromThread } from '../../../server/backends/subprocess/messages.ts'
import { SpawnError } from '../../../server/backends/subprocess/subprocess.ts'
import { processesWith, uniqueSleep } from '../../helpers/processes.ts'
import { until } from '../../helpers/until.ts'

const seen = vi.hoisted(() => ({ threads: [] as Worker[], losesStarts: false }))

vi.mock('node:worker_threads', async (original) => {
  const actual = await original<typeof import('node:worker_threads')>()
  const isLost = (message: unknown): boolean => seen.losesStarts && (message as FromThread).type === 'started'
  const receiveMessageOnPort = (port: MessagePort): { message: unknown } | undefined => {
    const next = actual.receiveMessageOnPort(port) as { message: unknown } | undefined
    return next !== undefined && isLost(next.message) ? receiveMessageOnPort(port) : next
  }
  return {
    ...actual,
    receiveMessageOnPort,
    MessageChannel: class extends actual.MessageChannel {
      constructor() {
        super()
        const { port1 } = this
        const on = port1.on.bind(port1) as (event: string, listener: (message: unknown) => void) => MessagePort
        port1.on = ((event: string, listener: (message: unknown) => void) =>
          on(event, (message) => {
            if (!isLost(message)) listener(message)
          })) as typeof port1.on
      }
    },
    Worker: class extends actual.Worker {
      constructor(...args: ConstructorParameters<typeof Worker>) {
        super(...args)
        seen.threads.push(this)
      }
    }
  }
})

const spec = { cwd: '/', stdin: 'ignore', stdout: { maxBytes: 10 }, stderr: 'pipe', graceMs: 300 } as const

beforeEach(() => {
  seen.threads.length = 0
})

it.each([
  ['', false],
  ['just after a start, before it is told of,', true]
])('ends all processes when their thread is lost %s and the next command has a new one', async (_when, losesStarts) => {
  const sleep = uniqueSleep()
  const trees = new ManagedTrees({ dataDirectory: import.meta.dirname })
  onTestFinished(() => trees.dispose())
  seen.losesStarts = losesStarts
  const handle = trees.spawn({ ...spec, argv: ['bash', '-c', `setsid sleep ${sleep} & sleep ${sleep}`] })
  await until(() => processesWith(sleep).filter((command) => command.startsWith('sleep')).length === 2)
  seen.losesStarts = false
  await seen.threads[0]!.terminate()
  await expect(handle.done).rejects.toThrow(SpawnError)
  expect(await handle.waitForExit()).toBe(true)
  await until(() => processesWith(sleep).length === 0)
  const next = trees.spawn({ ...spec, argv: ['echo', 'hi'] })
  expect(await next.done).toEqual({ exitCode: 0, signal: null })
  expect((await next.collected.stdout!.readFrom(0)).text).toBe('hi\n')
  expect(seen.threads).toHaveLength(2)
})
