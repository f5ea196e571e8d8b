import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { execaSync } from 'execa'
import { describe, expect, it } from 'vitest'
import { resolveBudgets } from '../../server/code-runtime/budgets.ts'
import { launchesOf } from '../../server/code-runtime/containment.ts'
import { Keeper } from '../../server/code-runtime/keeper/keeper.ts'
import type { SettledRun } from '../../server/code-runtime/keeper/messages.ts'
import { descendants } from '../helpers/code-runtime.ts'
import { RunningServer } from '../helpers/running-server.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { until } from '../helpers/until.ts'

const firstProcess = ['unshare', '--pid', '--fork', '--mount-proc', '--kill-child', 'tini', '-g', '--']
const isPossible = !execaSync(firstProcess[0]!, [...firstProcess.slice(1), 'true'], { reject: false }).failed

/** What `/proc` tells of a process, empty when it is gone. */
function read(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1')
  } catch {
    return ''
  }
}

const keepers = (): number[] => descendants().filter((pid) => read(pid, 'cmdline').includes('keeper-process.js'))
const isZombie = (pid: number): boolean => /^\d+ \(.*\) Z/s.test(read(pid, 'stat'))
const programs = { codeRuntime: { backend: 'process', spareWorlds: 1 }, presentation: { mode: 'both' } }
const runCode = (code: string) => ({ session: 's', name: 'run_code', arguments: { code, description: 'x' } })

/** A program that never ends, once it runs. */
async function spin(server: RunningServer, home: string): Promise<{ answer: ReturnType<RunningServer['request']> }> {
  const begun = join(home, 'begun')
  const code = `await tools.bash({ command: 'touch ${begun}', description: 'x' }); for (;;);`
  const answer = server.request('/invoke', runCode(code))
  answer.catch(() => undefined)
  await until(() => existsSync(begun))
  return { answer }
}

describe('the process that holds the worlds', { timeout: 60_000 }, () => {
  it('ends with all of them when the server is killed', async () => {
    const home = temporaryDirectory()
    const server = await RunningServer.start(home, programs)
    await spin(server, home)
    const all = descendants().filter((pid) => read(pid, 'cmdline').includes('code-runtime'))
    expect(all).toEqual(expect.arrayContaining(keepers()))
    // The keeper, and what one world is at least.
    expect(all.length).toBeGreaterThan(1)
    // Those of the keeper are nobody's when it is gone.
    await server.end('SIGKILL')
    await until(() => all.every((pid) => read(pid, 'stat') === '' || isZombie(pid)))
  })

  // Without tini, or the right to make a PID namespace, there is no first process to be.
  it.skipIf(!isPossible)('leaves no zombie in a container when it is killed, and neither do its worlds', async () => {
    const home = temporaryDirectory()
    const server = await RunningServer.start(home, programs, { launcher: firstProcess })
    const { answer } = await spin(server, home)
    const [keeper] = keepers()
    process.kill(keeper!, 'SIGKILL')
    await expect(answer).resolves.toMatchObject({
      body: { isError: true, error: { message: expect.stringContaining('The process that holds the programs ended') } }
    })
    await expect(server.request('/invoke', runCode('return 1'))).resolves.toMatchObject({ body: { isError: false } })
    await until(() => descendants().every((pid) => !isZombie(pid)))
    expect(keepers()).not.toContain(keeper)
  })

  it('is replaced when it gives no sign', async () => {
    const relay = fileURLToPath(new URL('../../server/code-runtime/process/relay.js', import.meta.url))
    const budgets = resolveBudgets({ spareWorlds: 0 })
    const launches = launchesOf(process.execPath, [relay, JSON.stringify(budgets)])
    const keeper = await Keeper.open({ source: { type: 'process', launches }, budgets, maxSilenceMs: 2_000 })
    const [pid] = keepers()
    const run = (program: string) =>
      new Promise<SettledRun>((settled) => {
        keeper.start({ program, bindings: [], isLive: false }, { call: () => {}, logs: () => {}, settled })
      })
    const outcome = run('for (;;);')
    process.kill(pid!, 'SIGSTOP')
    await expect(outcome).resolves.toMatchObject({
      error: { kind: 'worker-exit', message: expect.stringContaining('it did not answer for 2 s') }
    })
    expect(read(pid!, 'stat')).toBe('')
    await expect(run('return 1')).resolves.toEqual({ logs: [], value: '1' })
    await keeper.dispose()
    expect(keepers()).toEqual([])
  })
})
