import type { ChildProcess } from 'node:child_process'
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { ManagedTrees } from '../../../server/backends/subprocess/managed-trees.ts'
import type { FromHost } from '../../../server/backends/subprocess/messages.ts'
import { BashShell } from '../../../server/backends/shell/bash-shell.ts'
import { ProcessLostError } from '../../../server/backends/subprocess/subprocess.ts'
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
  await expect(handle.done).rejects.toThrow(ProcessLostError)
  expect(await handle.waitForExit()).toBe(true)
  await until(() => processesWith(sleep).length === 0)
  const next = trees.spawn({ ...spec, argv: ['echo', 'hi'] })
  expect(await next.done).toEqual({ exitCode: 0, signal: null })
  expect((await next.collected.stdout!.readFrom(0)).text).toBe('hi\n')
  expect(seen.hosts).toHaveLength(2)
})

describe('a host that is stopped', () => {
  /** What a command of it and those that come later are told once it is replaced, and that nothing of them is left. */
  async function open() {
    const trees = new ManagedTrees({ dataDirectory: import.meta.dirname, maxHostSilenceMs: 3_000 })
    onTestFinished(() => trees.dispose())
    const sleep = uniqueSleep()
    const running = trees.spawn({ ...spec, argv: ['bash', '-c', `setsid sleep ${sleep} & sleep ${sleep}`] })
    await until(() => processesWith(sleep).filter((command) => command.startsWith('sleep')).length === 2)
    const [host] = seen.hosts
    host!.kill('SIGSTOP')
    onTestFinished(() => void host!.kill('SIGKILL'))
    const shell = new BashShell(trees, { limits: { graceMs: 300 } })
    return { trees, running, sleep, shell }
  }
  const stuck = 'the process that owns the others failed: it did not answer for 3 s'

  it('is replaced: its trees end, commands past their deadline or aborted come back, later ones run', async () => {
    const { trees, running, sleep, shell } = await open()
    const turn = new AbortController()
    const late = shell.run(shell.resolve({ command: `: ${sleep}`, timeoutMs: 50 }), {
      signal: new AbortController().signal
    })
    const aborted = shell.run(shell.resolve({ command: `: ${sleep}` }), { signal: turn.signal })
    const job = shell.start(shell.resolve({ command: `: ${sleep}` }))
    job.kill()
    turn.abort()
    const ends = await Promise.allSettled([running.done, late, aborted, job.done])
    expect(ends.map((end) => (end.status === 'rejected' ? end.reason : end.value))).toEqual([
      expect.objectContaining({ code: 'SPAWN_FAILED', message: stuck }),
      expect.objectContaining({ code: 'SPAWN_FAILED', message: stuck }),
      expect.objectContaining({ code: 'ABORTED' }),
      undefined
    ])
    expect([job.status, (await job.readOutput()).text]).toEqual(['killed', `[stderr]\n${stuck}`])
    expect(processesWith(sleep)).toEqual([])
    const next = trees.spawn({ ...spec, argv: ['echo', 'hi'] })
    expect(await next.done).toEqual({ exitCode: 0, signal: null })
    expect(seen.hosts).toHaveLength(2)
  })

  it('is ended with all of its trees when the server stops', async () => {
    const { trees, running, sleep } = await open()
    await Promise.all([trees.dispose(), expect(running.done).rejects.toThrow(ProcessLostError)])
    expect(await running.waitForExit()).toBe(true)
    expect(processesWith(sleep)).toEqual([])
  })
})
