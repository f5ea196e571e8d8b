import { execFile, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { openProcessRuntime } from '../../../server/code-runtime/process/process-runtime.ts'
import {
  descendants,
  fixtureFunctions,
  processesNaming,
  runProgram,
  toolsBinding,
  worldProcesses
} from '../../helpers/code-runtime.ts'
import { until } from '../../helpers/until.ts'
import { describeContract } from '../contract.ts'

const serverScript = join(import.meta.dirname, '../../fixtures/programs/server-with-a-run.ts')
const initScript = join(import.meta.dirname, '../../fixtures/programs/server-as-init.ts')
/** Also one that has ended, and that nobody has waited for. */
const isThere = (pid: number): boolean => existsSync(`/proc/${pid}`)

describe('the process runtime', () => {
  describeContract(openProcessRuntime)

  it('says what it is, and how its programs are contained', async () => {
    const runtime = await openProcessRuntime({ spareWorlds: 0 })
    try {
      expect([runtime.language, runtime.isolation]).toEqual(['typescript', 'process'])
      const { value } = await runProgram(
        runtime,
        'return [process.ppid, process.getuid(), process.kill(process.pid, 0)]'
      )
      const [parent, user] = value as [number, number]
      expect(parent === process.pid).toBe(false)
      expect(runtime.containment.pidNamespace).toBe(parent <= 2)
      expect(runtime.containment.ownUser).toBe(user !== process.getuid?.())
    } finally {
      await runtime.dispose()
    }
  })

  it('C067 leaves no process', { timeout: 60_000 }, async () => {
    const before = descendants()
    const runtime = await openProcessRuntime({ spareWorlds: 2 })
    await Promise.all([runProgram(runtime, 'return 1'), runProgram(runtime, 'return 2')])
    await until(() => descendants().length > before.length)
    await runtime.dispose()
    await until(() => descendants().every((pid) => before.includes(pid)))
  })

  it('C066 a spare that dies before its use is replaced', { timeout: 60_000 }, async () => {
    const runtime = await openProcessRuntime({ spareWorlds: 1 })
    try {
      for (let round = 0; round < 3; round += 1) {
        await until(() => runtime.load().spares === 1)
        for (const pid of worldProcesses()) {
          try {
            process.kill(pid, 'SIGKILL')
          } catch {
            // It ended with the one before.
          }
        }
        if (round === 0) await expect(runProgram(runtime, 'return 1')).resolves.toEqual({ logs: [], value: 1 })
        else await until(() => runtime.load().spares === 0)
      }
    } finally {
      await runtime.dispose()
    }
  })

  it('R8 leaves no process when the server is killed', { timeout: 60_000 }, async () => {
    const nonce = `orphan-${randomUUID()}`
    const server = spawn(process.execPath, ['--import', 'tsx', serverScript, nonce], {
      stdio: ['ignore', 'pipe', 'inherit']
    })
    try {
      await once(server.stdout, 'data')
      expect(processesNaming(nonce).length).toBeGreaterThan(1)
    } finally {
      server.kill('SIGKILL')
    }
    await until(() => processesNaming(nonce).length === 0)
  })

  it('leaves nothing when a process of a world is killed, and runs the next program', { timeout: 60_000 }, async () => {
    const before = worldProcesses()
    const runtime = await openProcessRuntime({ spareWorlds: 0 })
    try {
      let world: number[] = []
      // The outermost process, those between, and the program's own.
      for (let which = 0; which === 0 || which < world.length; which += 1) {
        const seen = async () => {
          world = worldProcesses().filter((pid) => !before.includes(pid) && isThere(pid))
          process.kill(world[which]!, 'SIGKILL')
          return 1
        }
        const functions = fixtureFunctions({ seen })
        const outcome = await runProgram(runtime, 'await tools.seen(1); for (;;) {}', {
          bindings: [toolsBinding(functions)]
        })
        expect(outcome.error?.kind).toBe('worker-exit')
        await expect(runProgram(runtime, 'return 1')).resolves.toEqual({ logs: [], value: 1 })
        await until(() => !world.some(isThere))
      }
    } finally {
      await runtime.dispose()
    }
  })

  // Only root makes a namespace without more ado.
  it.skipIf(process.getuid?.() !== 0)(
    'leaves nothing in the table of a container that has no init',
    { timeout: 60_000 },
    async () => {
      const line = ['--pid', '--fork', '--mount-proc', '--kill-child', process.execPath, '--import', 'tsx', initScript]
      const { stdout } = await promisify(execFile)('unshare', line)
      const [succeeded, left] = JSON.parse(stdout) as [number, number]
      expect(succeeded).toBe(3)
      // Of seven worlds; what a busy machine lets wait for too long is killed together all the same.
      expect(left).toBeLessThan(3)
    }
  )

  it('C053 a spare that waited has used nothing', { timeout: 60_000 }, async () => {
    const runtime = await openProcessRuntime({ spareWorlds: 1, computeMs: 300, maxWallMs: 2_000 })
    try {
      await runProgram(runtime, 'return 1')
      await new Promise((resolve) => setTimeout(resolve, 2_500))
      await expect(runProgram(runtime, 'return 1')).resolves.toEqual({ logs: [], value: 1 })
    } finally {
      await runtime.dispose()
    }
  })
})
