import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { BashShell } from '../../../server/backends/shell/bash-shell.ts'
import type { ShellLimits } from '../../../server/backends/shell/command-shell.ts'
import { ManagedTrees } from '../../../server/backends/subprocess/managed-trees.ts'
import { processesWith, uniqueSleep } from '../../helpers/processes.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'
import { until } from '../../helpers/until.ts'

const trees = new ManagedTrees({ dataDirectory: import.meta.dirname })
afterAll(() => trees.dispose())

function open(limits: Partial<ShellLimits> = {}) {
  const directory = temporaryDirectory()
  const shell = new BashShell(trees, { cwd: directory, limits: { graceMs: 300, ...limits } })
  const start = (command: string) => shell.start(shell.resolve({ command }))
  const run = (command: string, signal = new AbortController().signal, timeoutMs?: number) =>
    shell.run(shell.resolve({ command, ...(timeoutMs !== undefined && { timeoutMs }) }), { signal })
  return { shell, directory, start, run }
}

describe('resolve', () => {
  it('fills in what is absent and caps the timeout', () => {
    const { shell, directory } = open({ timeoutMs: 5, maxTimeoutMs: 10, maxOutputBytes: 7 })
    expect(shell.resolve({ command: 'x' })).toEqual({
      command: 'x',
      workdir: directory,
      timeoutMs: 5,
      stdoutMaxBytes: 7
    })
    expect(shell.resolve({ command: 'x', timeoutMs: 99, workdir: '/', stdoutMaxBytes: 3 })).toEqual({
      command: 'x',
      workdir: '/',
      timeoutMs: 10,
      stdoutMaxBytes: 3
    })
  })

  it.each([0, -1, Number.NaN, Infinity])('refuses a timeout of %s', (timeoutMs) => {
    expect(() => open().shell.resolve({ command: 'x', timeoutMs })).toThrow(RangeError)
    expect(() => open({ timeoutMs })).toThrow(RangeError)
  })
})

describe('run', () => {
  it('rejects when the signal is aborted before, and runs nothing', async () => {
    const { run, directory } = open()
    await expect(run('touch canary', AbortSignal.abort())).rejects.toThrow(/abort/)
    expect(existsSync(join(directory, 'canary'))).toBe(false)
  })

  it('tells one cause only, the first', async () => {
    const { run, directory } = open({ graceMs: 10_000 })
    const controller = new AbortController()
    const wait = 'until [ -e go ]; do sleep .01; done'
    const running = run(`trap 'touch trapped; ${wait}; exit 0' TERM; ${wait}`, controller.signal, 300)
    await until(() => existsSync(join(directory, 'trapped')))
    controller.abort()
    writeFileSync(join(directory, 'go'), '')
    expect(await running).toMatchObject({ timedOut: true, aborted: false, exitCode: 0, signal: null })
  })

  it('ends, with a command that is aborted, also what has neither its environment nor its session nor its parent', async () => {
    const sleep = uniqueSleep()
    const { run } = open()
    const abort = new AbortController()
    const running = run(`env -i setsid sh -c '(sleep ${sleep} >/dev/null 2>&1 &)'; sleep 60`, abort.signal)
    await until(() => processesWith(sleep).some((line) => line.startsWith('sleep ')))
    abort.abort()
    expect((await running).aborted).toBe(true)
    expect(processesWith(sleep)).toEqual([])
  })

  it('is told when nothing of an ended command runs any more', async () => {
    const sleep = uniqueSleep()
    const { run } = open()
    const result = await run(`(trap '' TERM; sleep ${sleep}; sleep ${sleep}) & sleep ${sleep}`, undefined, 200)
    expect(result).toMatchObject({ timedOut: true, signal: 'SIGTERM' })
    expect(processesWith(sleep)).toEqual([])
  })

  it('refuses a command longer than the system takes, and takes the longest', async () => {
    const { run } = open()
    await expect(run(`: ${'x'.repeat(131_070)}`)).rejects.toThrow(/131072 bytes/)
    expect((await run(`: ${'x'.repeat(131_069)}`)).exitCode).toBe(0)
  })
})

describe('start', () => {
  it('delivers each byte once, and the two streams merged', async () => {
    const { start, directory } = open()
    const command = start('printf one; printf oops >&2; until [ -e go ]; do sleep .01; done; echo two')
    let first = ''
    await until(async () => {
      first += (await command.readOutput()).text
      return first.includes('oops') && first.includes('one')
    })
    writeFileSync(join(directory, 'go'), '')
    await command.done
    expect(first.replaceAll(/\[stderr\]|\n/g, '')).toMatch(/^(oneoops|oopsone)$/)
    expect(await command.readOutput()).toEqual({ text: 'two\n', lossy: false, spillPaths: [] })
    expect((await command.readOutput()).text).toBe('')
    expect(command).toMatchObject({ status: 'completed', exitCode: 0, signal: null })
    expect(command.kill()).toBe(false)
  })

  it('is killed once', async () => {
    const command = open().start('sleep 60')
    expect([command.kill(), command.kill()]).toEqual([true, false])
    await command.done
    expect(command).toMatchObject({ status: 'killed', signal: 'SIGTERM' })
  })

  it('counts a death by its own signal as killed', async () => {
    const command = open().start('kill -KILL $$')
    await command.done
    expect(command).toMatchObject({ status: 'killed', signal: 'SIGKILL', exitCode: null })
  })

  it('settles as killed when it cannot be started, and tells why once', async () => {
    const { shell, directory } = open()
    const command = shell.start(shell.resolve({ command: 'true', workdir: join(directory, 'nowhere') }))
    await command.done
    expect(command.status).toBe('killed')
    expect((await command.readOutput()).text).toMatch(/^\[stderr\]\n.*nowhere/)
    expect((await command.readOutput()).text).toBe('')
  })

  it('tells what slid out of memory and where all of it is', async () => {
    const command = open({ maxOutputBytes: 100 }).start('seq 1 1000')
    await command.done
    const delta = await command.readOutput()
    expect(delta.lossy).toBe(true)
    expect(delta.spillPaths).toHaveLength(1)
  })
})
