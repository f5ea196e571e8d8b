import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { verifyLog } from '../../server/event-log/sqlite/verify-log.js'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { until } from '../helpers/until.ts'
import { removeTraces } from './harness.ts'
import { ServerProcess } from './server-process.ts'

const lanes = 4

/** Each of the first forty with `C5_ALL=1`; a few of them else. */
const nths = (sample: number[]): number[] =>
  process.env['C5_ALL'] === undefined ? sample : Array.from({ length: 40 }, (_, index) => index + 1)

const faults: { call: string; effect: string; nths: number[] }[] = [
  { call: 'fsync', effect: 'error=EIO', nths: nths([1, 2, 7]) },
  { call: 'pwrite64', effect: 'error=EIO', nths: nths([3]) },
  { call: 'pwrite64', effect: 'error=ENOSPC', nths: nths([4]) },
  { call: 'fsync', effect: 'delay_enter=100000', nths: nths([5]) }
]

interface Seen {
  /** Of calls that were answered, where their result is. */
  acked: Map<string, number>
  refused: { status: number; code: unknown }[]
  unready: number
}

/** Whether the server, which is no child of the tracer, can be traced. */
const canAttach =
  spawnSync('strace', ['-e', 'trace=fsync', 'true'], { stdio: 'ignore' }).status === 0 && process.getuid?.() === 0

/** Calls from several sides, and a probe, until told or until the server is gone. */
async function callUntil(server: ServerProcess, isOver: { now: boolean }, seen: Seen, prefix: string): Promise<void> {
  const lane = async (side: number): Promise<void> => {
    for (let n = 0; !isOver.now; n += 1) {
      const callId = `${prefix}-${side}-${n}`
      const { status, body } = await server.request('POST', '/invoke', {
        callId,
        name: 'note',
        arguments: { text: 'x' }
      })
      if (status === 200) seen.acked.set(callId, body.resultSeq)
      else seen.refused.push({ status, code: body.error.code })
      if (status !== 200) await wait(5)
    }
  }
  const probe = async (): Promise<void> => {
    while (!isOver.now) {
      if ((await server.request('GET', '/health/ready')).status === 503) seen.unready += 1
      await wait(5)
    }
  }
  // A server that ends takes the connections along.
  await Promise.allSettled([probe(), ...Array.from({ length: lanes }, (_, side) => lane(side))])
}

/** Traces a running server with a system call that fails as `inject` says; the reopening, which deletes the journal, is made to take long enough to be seen. */
async function inject(server: ServerProcess, file: string, call: string, effect: string) {
  const tracer = spawn(
    'strace',
    [
      ...['-f', '-y', '-s', '0', '-o', file, '-p', String(server.pid), '-e', `trace=${call},?unlink,?unlinkat`],
      ...['-e', `inject=${call}:${effect}`, '-e', 'inject=?unlink,?unlinkat:delay_enter=300000']
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] }
  )
  const exited = once(tracer, 'exit')
  onTestFinished(() => void tracer.kill('SIGKILL'))
  await once(tracer.stderr, 'data')
  return {
    /** The line of each call that was meddled with. */
    injected: (): string[] =>
      readFileSync(file, 'utf8')
        .split('\n')
        .filter((line) => line.includes(call) && /\((INJECTED|DELAYED)\)/.test(line)),
    end: async (): Promise<void> => {
      tracer.kill('SIGTERM')
      await exited
    }
  }
}

/** Where the result of each call stands in the log of the default session. */
async function resultsOf(server: ServerProcess): Promise<Map<string, number>> {
  const results = new Map<string, number>()
  let due = 0
  for (let after: number | undefined = -1; after !== undefined;) {
    const { body } = await server.request('GET', `/sessions/default/events?after=${after}&limit=500`)
    for (const { seq, type, data } of body.events) {
      expect(seq).toBe(due)
      due += 1
      if (type !== 'tool/result') continue
      expect(results.has(data.message.source.callId)).toBe(false)
      results.set(data.message.source.callId, seq)
    }
    after = body.next
  }
  return results
}

/** Every call that was answered has its result where it was said to be, now and after a kill. */
async function expectKept(home: string, running: ServerProcess | undefined, seen: Seen): Promise<void> {
  const lostOf = (results: Map<string, number>): string[] =>
    [...seen.acked].filter(([callId, seq]) => results.get(callId) !== seq).map(([callId]) => callId)
  if (running !== undefined) {
    expect(lostOf(await resultsOf(running))).toEqual([])
    await running.kill()
  }
  const next = await ServerProcess.start({ home })
  expect(lostOf(await resultsOf(next))).toEqual([])
  await next.stop()
  expect(verifyLog(home).damagedSessions).toEqual([])
}

describe.skipIf(!canAttach)('C5: a server whose disk fails', () => {
  const emptyHome = (): string => {
    const home = join(temporaryDirectory(), 'home')
    onTestFinished(() => removeTraces(home))
    return home
  }
  const nothingSeen = (): Seen => ({ acked: new Map(), refused: [], unready: 0 })

  it(
    'acknowledges nothing that failed, says that it is not ready, and serves again',
    async () => {
      const home = emptyHome()
      const server = await ServerProcess.start({ home })
      const all = nothingSeen()
      for (const { call, effect, nths } of faults) {
        for (const nth of nths) {
          const what = `${call}:${effect}:when=${nth}`
          const seen = nothingSeen()
          const trace = await inject(server, `${home}.trace`, call, `${effect}:when=${nth}`)
          const isOver = { now: false }
          const calling = callUntil(server, isOver, seen, `${all.acked.size}-${nth}`)
          await until(() => trace.injected().length > 0, 60_000)
          const before = seen.acked.size
          await until(() => seen.acked.size > before + lanes, 60_000)
          isOver.now = true
          await calling
          await trace.end()
          if (process.env['C5_ALL'] !== undefined)
            console.log(what, seen.refused.length, seen.unready, trace.injected())
          const isError = effect.startsWith('error')
          const hasFailed = [seen.refused.length > 0, seen.unready > 0]
          expect(hasFailed, what).toEqual([isError, isError])
          expect(new Set(seen.refused.map(({ status, code }) => `${status} ${String(code)}`)), what).toEqual(
            new Set(isError ? ['503 STORE_UNAVAILABLE'] : [])
          )
          for (const [callId, seq] of seen.acked) all.acked.set(callId, seq)
        }
      }
      await expectKept(home, server, all)
    },
    faults.flatMap(({ nths }) => nths).length * 30_000 + 120_000
  )

  it('ends with 74 when it goes on failing', async () => {
    const home = emptyHome()
    const server = await ServerProcess.start({ home })
    const seen = nothingSeen()
    const trace = await inject(server, `${home}.trace`, 'fsync', 'error=EIO:when=9+')
    await callUntil(server, { now: false }, seen, 'c')
    expect(await server.exited).toEqual([74, null])
    expect(trace.injected().length).toBeGreaterThan(1)
    expect(
      seen.refused.every(
        ({ status, code }) => status === 503 && /^(STORE_UNAVAILABLE|SHUTTING_DOWN)$/.test(String(code))
      )
    ).toBe(true)
    await expectKept(home, undefined, seen)
    rmSync(`${home}.trace`)
  }, 180_000)
})
