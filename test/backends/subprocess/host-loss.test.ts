import type { ChildProcess } from 'node:child_process'
import { beforeEach, expect, it, onTestFinished, vi } from 'vitest'
import { ManagedTrees } from '../../../server/backends/subprocess/managed-trees.ts'
import type { FromHost } from '../../../server/backends/subprocess/messages.ts'
import { SpawnError } from '../../../server/backends/subprocess/subprocess.ts'
import { processesWith, uniqueSleep } from '../../helpers/processes.ts'
import { until } from '../../helpers/until.ts'

const seen = vi.hoisted(() => ({ hosts: [] as ChildProcess[], losesStarts: false }))

vi.mock('node:child_process', async (original) => {
  const actual = await original<typeof import('node:child_process')>()
  return {
    ...actual,
    fork: (...args: Parameters<typeof actual.fork>) => {
      const host = actual.fork(...args)
      const emit = host.emit.bind(host) as (event: string, ...values: unknown[]) => boolean
      host.emit = ((event: string, ...values: unknown[]) => {
        const isStart = event === 'message' && (values[0] as FromHost).type === 'started'
        return isStart && seen.losesStarts ? true : emit(event, ...values)
      }) as typeof host.emit
      seen.hosts.push(host)
      return host
    }
  }
})

const spec = { cwd: '/', stdin: 'ignore', stdout: { maxBytes: 10 }, stderr: 'pipe', graceMs: 300 } as const

beforeEach(() => {
  seen.hosts.length = 0
})

it.each([
  ['', false],
  ['just after a start, before it is told of,', true]
])('ends all processes when their host is lost %s and the next command has a new one', async (_when, losesStarts) => {
  const sleep = uniqueSleep()
  const trees = new ManagedTrees({ dataDirectory: import.meta.dirname })
  onTestFinished(() => trees.dispose())
  seen.losesStarts = losesStarts
  const handle = trees.spawn({ ...spec, argv: ['bash', '-c', `setsid sleep ${sleep} & sleep ${sleep}`] })
  await until(() => processesWith(sleep).filter((command) => command.startsWith('sleep')).length === 2)
  seen.losesStarts = false
  seen.hosts[0]!.kill('SIGKILL')
  await expect(handle.done).rejects.toThrow(SpawnError)
  expect(await handle.waitForExit()).toBe(true)
  await until(() => processesWith(sleep).length === 0)
  const next = trees.spawn({ ...spec, argv: ['echo', 'hi'] })
  expect(await next.done).toEqual({ exitCode: 0, signal: null })
  expect((await next.collected.stdout!.readFrom(0)).text).toBe('hi\n')
  expect(seen.hosts).toHaveLength(2)
})
