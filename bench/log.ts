import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay, performance } from 'node:perf_hooks'
import { setTimeout as wait } from 'node:timers/promises'
import type { EventLog } from '../server/event-log/event-log.ts'
import { openMemoryLog } from '../server/event-log/memory-log.ts'
import { openSqliteLog } from '../server/event-log/sqlite/log.ts'
import { median } from './median.ts'
import { watchBusiestTurn } from './servers/busiest-turn.js'

const seconds = Number(process.env['BENCH_SECONDS'] ?? 2)
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3)

interface Measured {
  perSecond: number
  /** Share of the time that the main loop was busy. */
  busy: number
  /** The longest time that the main loop was blocked, in milliseconds. */
  blockedMs: number
  /** The most that the main thread itself worked at a stretch, in milliseconds of processor time. */
  busiestMs: number
}

/** Events a second for appenders that each wait for their last append, of 300 bytes. */
export async function benchLog(): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), 'toolwright-bench-'))
  const logs = new Map<string, EventLog>([
    ['full', await openSqliteLog({ directory: join(root, 'full'), ballastBytes: 0 })],
    ['normal', await openSqliteLog({ directory: join(root, 'normal'), synchronous: 'normal', ballastBytes: 0 })],
    ['memory', openMemoryLog()]
  ])
  const idle = await longestDelay(() => wait(seconds * 1000))
  console.log('Appends of one event of 300 bytes (medians, alternated)')
  console.log(`With nothing to do the loop's longest delay is ${idle.toFixed(1)} ms: what the machine itself takes.\n`)
  console.log('appenders | log    | events/s | main loop busy | longest block | busiest turn')
  for (const appenders of [1, 16, 64]) {
    const measured = new Map<string, Measured[]>([...logs.keys()].map((name) => [name, []]))
    for (let round = 0; round < rounds; round += 1) {
      for (const [name, log] of logs) measured.get(name)?.push(await measure(log, appenders, `${appenders}-${round}`))
    }
    for (const [name, all] of measured) {
      const of = (key: keyof Measured): number => median(all.map((one) => one[key]))
      const cells = [
        String(appenders).padStart(9),
        name.padEnd(6),
        of('perSecond').toFixed(0).padStart(8),
        `${(of('busy') * 100).toFixed(0)} %`.padStart(14),
        `${of('blockedMs').toFixed(1)} ms`.padStart(13),
        `${of('busiestMs').toFixed(1)} ms`.padStart(12)
      ]
      console.log(cells.join(' | '))
    }
  }
  for (const log of logs.values()) await log.close()
  rmSync(root, { recursive: true })
}

async function measure(log: EventLog, appenders: number, prefix: string): Promise<Measured> {
  const sessions = Array.from({ length: appenders }, (_, n) => `${prefix}-${n}`)
  const rows = sessions.map((id) => ({ id, scope: 'global', created_at: 1 }))
  await log.append({ writes: rows.map((row) => ({ table: 'sessions', op: 'insert', row })) })
  const data = 'x'.repeat(300)
  let count = 0
  const before = performance.eventLoopUtilization()
  const end = performance.now() + seconds * 1000
  const appender = async (session: string): Promise<void> => {
    while (performance.now() < end) {
      await log.append({ session, events: [{ type: 'note', data }] })
      count += 1
    }
  }
  const busiest = watchBusiestTurn()
  const blockedMs = await longestDelay(() => Promise.all(sessions.map(appender)))
  busiest.stop()
  const { utilization } = performance.eventLoopUtilization(before)
  return { perSecond: count / seconds, busy: utilization, blockedMs, busiestMs: busiest.take() }
}

/** The longest time that the loop was held up while this ran, in milliseconds. */
async function longestDelay(run: () => Promise<unknown>): Promise<number> {
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  await run()
  delay.disable()
  return delay.max / 1e6
}
