import { randomUUID } from 'node:crypto'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { resolveBudgets } from '../../server/code-runtime/budgets.ts'
import { launchesOf } from '../../server/code-runtime/containment.ts'
import type { Launch } from '../../server/code-runtime/keeper/messages.ts'
import { openProcessRuntime } from '../../server/code-runtime/process/process-runtime.ts'
import { ProgramRuntime } from '../../server/code-runtime/program-runtime.ts'
import { openDirectory, processesNaming, runProgram } from '../helpers/code-runtime.ts'
import { until } from '../helpers/until.ts'

const relay = fileURLToPath(new URL('../../server/code-runtime/process/relay.js', import.meta.url))
const budgets = resolveBudgets({ spareWorlds: 0, computeMs: 20_000 })
const launches = launchesOf(process.execPath, [relay, JSON.stringify(budgets)])

const open = (launch: readonly Launch[]) =>
  ProgramRuntime.open(
    {
      language: 'typescript',
      isolation: 'process',
      source: { type: 'process', launches: launch },
      prepare: async (program) => ({ code: program }),
      close: async () => {}
    },
    budgets
  )

describe('the ways to start a world (§15.2)', { timeout: 60_000 }, () => {
  it('begin with the most contained, and end with one that works everywhere', () => {
    const counts = launches.map(({ containment }) => Object.values(containment).filter(Boolean).length)
    expect(Math.max(...counts)).toBe(counts[0])
    expect(launches.at(-1)?.containment).toEqual({ pidNamespace: false, ownUser: false, limits: false })
  })

  it.each(launches.map((launch) => [JSON.stringify(launch.containment), launch] as const))(
    '%s leaves no process behind, whatever left its group',
    async (_name, launch) => {
      const runtime = await open([launch]).catch(() => undefined)
      // Not every machine has every way; the last one is always there.
      if (runtime === undefined) return expect(launch).not.toBe(launches.at(-1))
      const nonce = `stray-${randomUUID()}`
      const program = `const { spawn } = await import('node:child_process')
      for (let i = 0; i < 3; i += 1) spawn('/bin/sleep', ['86400'], { argv0: '${nonce}', detached: true, stdio: 'ignore' }).unref()
      await tools.mirror(1); for (;;);`
      const stop = new AbortController()
      const outcome = runProgram(runtime, program, { signal: stop.signal })
      await until(() => processesNaming(nonce).length === 3)
      stop.abort('enough')
      await expect(outcome).resolves.toMatchObject({ error: { kind: 'abort' } })
      await until(() => processesNaming(nonce).length === 0)
      await expect(runProgram(runtime, 'return 1')).resolves.toEqual({ logs: [], value: 1 })
      await runtime.dispose()
    }
  )

  it('falls back to the next way when one does not work here', async () => {
    const broken: Launch = {
      ...launches.at(-1)!,
      command: '/nowhere/node',
      containment: { pidNamespace: true, ownUser: true, limits: true }
    }
    const runtime = await open([broken, launches.at(-1)!])
    expect(runtime.containment.pidNamespace).toBe(false)
    await runtime.dispose()
    await expect(open([broken])).rejects.toThrow(/No world for programs can be started.*ENOENT/)
  })

  it('hides directories and files where there is a namespace, unless the world cannot reach them anyway', async () => {
    const [open, closed] = [openDirectory(), openDirectory()]
    const files = [
      join(open, 'home', 'secret'),
      join(open, 'home', 'token'),
      join(open, 'token'),
      join(closed, 'secret')
    ]
    for (const path of files) {
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, 'x')
    }
    const seen = join(open, 'seen')
    writeFileSync(seen, 'x')
    chmodSync(closed, 0o700)
    const hiddenPaths = [join(open, 'home'), ...files.slice(1, 3), closed, '/nowhere/at/all']
    const runtime = await openProcessRuntime({ spareWorlds: 0, hiddenPaths })
    const program = `const fs = await import('node:fs'); return ${JSON.stringify([...files, seen])}.map((path) => { try { return fs.readFileSync(path, 'utf8') } catch (e) { return '' } })`
    const { value } = await runProgram(runtime, program)
    if (runtime.containment.pidNamespace) expect(value).toEqual(['', '', '', '', 'x'])
    expect(runtime.containment).toEqual(launches[0]?.containment)
    await runtime.dispose()
  })
})
