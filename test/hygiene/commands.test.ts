import { chmodSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { processesWith, uniqueSleep } from '../helpers/processes.ts'
import { RunningServer } from '../helpers/running-server.ts'
import { sandboxGround } from '../helpers/sandbox.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { until } from '../helpers/until.ts'
import { confinedKinds, kinds, Lane, runMixed } from './mixed-commands.ts'
import { holdingsOf, memoryOf, more } from './server-process.ts'

/** How many commands: `HYGIENE_COMMANDS=2000 npx vitest run test/hygiene` is the long form. */
const commands = Number(process.env['HYGIENE_COMMANDS'] ?? 200)
const lanes = 4
const MiB = 1024 * 1024

const canConfine = await sandboxGround()
  .open()
  .then(
    () => true,
    () => false
  )

/** A server with a temporary directory of its own, where the sandbox's user can come through. */
async function startServer() {
  const home = temporaryDirectory()
  chmodSync(home, 0o755)
  const temporary = join(home, 'tmp')
  mkdirSync(temporary)
  const settings = {
    shell: { executor: canConfine ? 'bash-sandbox' : 'bash-local', graceMs: 300 },
    sandbox: { mode: 'danger-full-access' },
    terminals: { graceMs: 300 },
    codeRuntime: { backend: 'off' },
    // So that connections which the client keeps are not taken for a leak.
    http: { maxRequestsPerSocket: 1 }
  }
  const server = await RunningServer.start(home, settings, { env: { TMPDIR: temporary } })
  return { server, filesLeft: () => readdirSync(temporary) }
}

it(
  `R7 ${commands} mixed commands leave no process, zombie, descriptor, file or memory`,
  // A second and a half each is far more than they take.
  { timeout: Math.max(600_000, commands * 1_500) },
  async () => {
    const { server, filesLeft } = await startServer()
    const { pid } = server
    const all = canConfine ? [...kinds, ...confinedKinds] : kinds
    const ours = Array.from({ length: lanes }, (_, at) => new Lane(server, `lane-${at}`))
    if (canConfine) for (const lane of ours) await lane.confine()
    const isQuiet = () => processesWith(`600.${process.pid}`).length === 0
    // What is made once and kept is there after the first of each kind.
    await runMixed(ours, all, all.length)
    await until(isQuiet)
    await settled(pid)
    const [before, memoryBefore] = [holdingsOf(pid), memoryOf(pid)]

    await runMixed(ours, all, commands - all.length)

    await until(isQuiet)
    const extra = () => {
      const { descriptors, descendants } = holdingsOf(pid)
      return {
        descriptors: more(descriptors, before.descriptors),
        descendants: more(descendants, before.descendants)
      }
    }
    await until(() => Object.values(extra()).every((list) => list.length === 0)).catch(() => undefined)
    expect(extra()).toEqual({ descriptors: [], descendants: [] })
    expect(memoryOf(pid) - memoryBefore).toBeLessThan(100 * MiB)

    // And what is meant to last ends with the server.
    const [lane, sleep] = [ours[0]!, uniqueSleep()]
    await lane.bash(`setsid sleep ${sleep} >/dev/null 2>&1 & seq 1 20000`)
    await lane.bash(`sleep ${sleep}; true`, { run_in_background: true })
    const { sessionId } = await lane.use('terminal_open', { type: 'shell' })
    await lane.use('terminal_send', { sessionId, text: `sleep ${sleep} &` })
    await until(() => processesWith(`sleep ${sleep}`).length >= 3)
    expect(await server.end('SIGTERM')).toBe(0)
    expect(processesWith(sleep)).toEqual([])
    expect(filesLeft()).toEqual([])
  }
)

/** Waits until the process holds the same for a while: what ended by itself has been noticed. */
async function settled(pid: number): Promise<void> {
  let [last, since] = ['', performance.now()]
  await until(() => {
    const now = JSON.stringify(holdingsOf(pid))
    if (now !== last) [last, since] = [now, performance.now()]
    return performance.now() - since > 1_000
  }, 30_000)
}

it(
  'F33 a gigabyte of output goes through while the server answers, and its memory stays',
  { timeout: 300_000 },
  async () => {
    const { server } = await startServer()
    const lane = new Lane(server, 's')
    // Read, cut, spilled and watched once, for what is made at the first time.
    await lane.bash('yes | head -c 100M')
    const before = memoryOf(server.pid)
    let isDone = false
    const flood = lane.bash('yes | head -c 1G').finally(() => (isDone = true))
    let [probes, peak] = [0, before]
    while (!isDone) {
      const { status, body } = await server.request('/health/live')
      expect([status, body]).toEqual([200, { status: 'live' }])
      peak = Math.max(peak, memoryOf(server.pid))
      probes += 1
      await wait(10)
    }
    const { exitCode, stdout } = await flood
    expect(exitCode).toBe(0)
    expect(stdout).toMatchObject({ truncated: true })
    expect(stdout).not.toHaveProperty('spillPath')
    expect(stdout.text).toMatch(/^(?:y\n)+$/)
    expect(probes).toBeGreaterThan(10)
    expect(peak - before).toBeLessThan(100 * MiB)
  }
)
