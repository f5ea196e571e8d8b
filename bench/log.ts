import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay, performance, PerformanceObserver } from 'node:perf_hooks'
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
  /** The longest collection of garbage within it, in milliseconds. */
  collectionMs: number
}

const counts = [1, 16, 64]

/** Events a second for appenders that each wait for their last append, of 300 bytes, and what the durable log does to the main loop. */
export async function benchLog(): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), 'toolwright-bench-'))
  const full = await openSqliteLog({ directory: join(root, 'full'), ballastBytes: 0 })
  await benchBlocks(full)
  const logs = new Map<string, EventLog>([
    ['full', full],
    ['normal', await openSqliteLog({ directory: join(root, 'normal'), synchronous: 'normal', ballastBytes: 0 })],
    ['memory', openMemoryLog()]
  ])
  console.log('\nAppends of one event of 300 bytes (medians, alternated)\n')
  console.log('appenders | log    | events/s | main loop busy')
  for (const appenders of counts) {
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
        `${(of('busy') * 100).toFixed(0)} %`.padStart(14)
      ]
      console.log(cells.join(' | '))
    }
  }
  for (const log of logs.values()) await log.close()
  rmSync(root, { recursive: true })
}

/** By the durable log alone: what one in memory keeps would be walked by the collections that the others are charged with. */
async function benchBlocks(log: EventLog): Promise<void> {
  const idle = await longestDelay(() => wait(seconds * 1000))
  console.log('The main loop while the durable log is appended to')
  console.log(`With nothing to do its longest delay is ${idle.toFixed(1)} ms: what the machine itself takes.\n`)
  console.log('appenders | longest block | busiest turn | longest collection')
  for (const appenders of counts) {
    const all: Measured[] = []
    for (let round = 0; round < rounds; round += 1)
      all.push(await measure(log, appenders, `alone-${appenders}-${round}`))
    const of = (key: keyof Measured): string => `${median(all.map((one) => one[key])).toFixed(1)} ms`
    const cells = [of('blockedMs').padStart(13), of('busiestMs').padStart(12), of('collectionMs').padStart(18)]
    console.log([String(appenders).padStart(9), ...cells].join(' | '))
  }
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
  let collectionMs = 0
  const collections = new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) collectionMs = Math.max(collectionMs, duration)
  })
  collections.observe({ entryTypes: ['gc'] })
  const blockedMs = await longestDelay(() => Promise.all(sessions.map(appender)))
  busiest.stop()
  const { utilization } = performance.eventLoopUtilization(before)
  // The observer hears of a collection in a later turn.
  await wait(50)
  collections.disconnect()
  return { perSecond: count / seconds, busy: utilization, blockedMs, busiestMs: busiest.take(), collectionMs }
}

/** The longest time that the loop was held up while this ran, in milliseconds. */
async function longestDelay(run: () => Promise<unknown>): Promise<number> {
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  await run()
  delay.disable()
  return delay.max / 1e6
}
