import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import type { ShellLimits } from '../../../server/backends/shell/command-shell.ts'
import { PwshShell } from '../../../server/backends/shell/pwsh-shell.ts'
import { ManagedTrees } from '../../../server/backends/subprocess/managed-trees.ts'
import { SpawnError } from '../../../server/backends/subprocess/subprocess.ts'
import { fakePwsh, setPath } from '../../helpers/fake-pwsh.ts'
import { processesWith, uniqueSleep } from '../../helpers/processes.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'
import { until } from '../../helpers/until.ts'

const trees = new ManagedTrees({ dataDirectory: import.meta.dirname })
afterAll(() => trees.dispose())

async function open(limits: Partial<ShellLimits> = {}) {
  const directory = temporaryDirectory()
  const shell = await PwshShell.open(trees, { cwd: directory, limits: { graceMs: 300, ...limits } })
  const start = (command: string) => shell.start(shell.resolve({ command }))
  const run = (command: string, { signal = new AbortController().signal, timeoutMs = 60_000 } = {}) =>
    shell.run(shell.resolve({ command, timeoutMs }), { signal })
  return { directory, start, run }
}

describe('pwsh-local (backends.md §3.3)', () => {
  it('calls pwsh without logo, profile and questions, with the text as one argument, its output pinned to UTF-8', async () => {
    fakePwsh(`#!/bin/bash\nprintf '%s\\n' "$#" "$@"\n`)
    const { run } = await open()
    const command = `-Write "$x" 'y'\n# é`
    expect((await run(command)).stdout.text).toBe(
      `5\n-NoLogo\n-NoProfile\n-NonInteractive\n-Command\n[Console]::OutputEncoding = [Text.Encoding]::UTF8; ${command}\n`
    )
  })

  it('has the output as it was written, both streams, and the exit code', async () => {
    fakePwsh()
    const { run, directory } = await open()
    const result = await run(`printf 'é漢😀\\n'; pwd; printf 'ü' >&2; echo "[$(cat)] $TERM $NO_COLOR"; exit 3`)
    expect(result).toMatchObject({ exitCode: 3, signal: null, timedOut: false, aborted: false })
    expect(result.stdout.text).toBe(`é漢😀\n${directory}\n[] dumb 1\n`)
    expect(result.stderr.text).toBe('ü')
    expect((await run('kill -TERM $$')).signal).toBe('SIGTERM')
  })

  it('keeps the end of a long output, and all of it in a file', async () => {
    fakePwsh()
    const { run } = await open({ maxOutputBytes: 100 })
    const { stdout } = await run('seq 1 5000')
    expect(stdout).toMatchObject({ truncated: true, spillPath: expect.any(String) })
    expect(stdout.text.endsWith('4999\n5000\n')).toBe(true)
  })

  it('ends a command and all that it started at its time limit, and when the call is aborted', async () => {
    fakePwsh()
    const { run, directory } = await open()
    const sleep = uniqueSleep()
    const command = `setsid sleep ${sleep} & touch ready; wait`
    expect(await run(command, { timeoutMs: 700 })).toMatchObject({ timedOut: true, aborted: false, signal: 'SIGTERM' })
    expect(processesWith(sleep)).toEqual([])

    const abort = new AbortController()
    const running = run(`touch again; ${command}`, { signal: abort.signal })
    await until(() => existsSync(join(directory, 'again')))
    abort.abort()
    expect(await running).toMatchObject({ timedOut: false, aborted: true })
    expect(processesWith(sleep)).toEqual([])
  })

  it('runs commands in the background', async () => {
    fakePwsh()
    const { start } = await open()
    const done = start('echo one; exit 4')
    await done.done
    expect(done).toMatchObject({ status: 'completed', exitCode: 4 })
    expect((await done.readOutput()).text).toBe('one\n')

    const sleep = uniqueSleep()
    const endless = start(`setsid sleep ${sleep} & wait`)
    await until(() => processesWith(sleep).length > 0)
    expect(endless.kill()).toBe(true)
    await endless.done
    expect(endless.status).toBe('killed')
    expect(processesWith(sleep)).toEqual([])
  })

  it('is not there where there is no pwsh', async () => {
    setPath(temporaryDirectory())
    await expect(open()).rejects.toThrow(SpawnError)
    await expect(open()).rejects.toThrow('there is no program "pwsh" on the PATH')
  })

  it('goes on with the program that was found', async () => {
    fakePwsh()
    const { run } = await open()
    setPath('/usr/bin:/bin')
    expect((await run('echo still')).stdout.text).toBe('still\n')
  })
})
