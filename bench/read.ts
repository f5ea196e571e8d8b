import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import { openSqliteLog, type SqliteLog } from '../server/event-log/sqlite/log.ts'
import { median } from './median.ts'

const large = Number(process.env['BENCH_EVENTS'] ?? 1_000_000)
const batch = 500

/** The last 100 events of a session in a small and in a large log, and what an append costs while that one grows. */
export async function benchRead(): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), 'toolwright-bench-'))
  const [small, big] = [await open(join(root, 'small')), await open(join(root, 'big'))]
  await fill(small, 100)
  console.log(`Appends of ${batch} events of 200 bytes while the log grows\n`)
  console.log('events in the log | µs an event')
  for (let tenth = 1; tenth <= 10; tenth += 1) {
    const startedAt = performance.now()
    await fill(big, large / 10)
    const micros = ((performance.now() - startedAt) * 1000) / (large / 10)
    console.log(`${String((large / 10) * tenth).padStart(17)} | ${micros.toFixed(1).padStart(11)}`)
  }
  console.log('\nThe last 100 events of a session (medians of 200, alternated)\n')
  const times = new Map<SqliteLog, number[]>([
    [small, []],
    [big, []]
  ])
  for (let round = 0; round < 200; round += 1) for (const [log, all] of times) all.push(await readLast(log))
  const [few = Number.NaN, many = Number.NaN] = [...times.values()].map(median)
  console.log('events in the log | µs a read')
  console.log(`${'100'.padStart(17)} | ${few.toFixed(0).padStart(9)}`)
  console.log(`${String(large).padStart(17)} | ${many.toFixed(0).padStart(9)}   ratio ${(many / few).toFixed(2)}`)
  for (const log of [small, big]) await log.close()
  rmSync(root, { recursive: true })
}

async function open(directory: string): Promise<SqliteLog> {
  const log = await openSqliteLog({ directory, ballastBytes: 0 })
  const rows = Array.from({ length: 100 }, (_, n) => ({ id: `s${n}`, scope: 'global', created_at: 1 }))
  await log.append({ writes: rows.map((row) => ({ table: 'sessions', op: 'insert', row })) })
  return log
}

async function fill(log: SqliteLog, count: number): Promise<void> {
  const data = 'x'.repeat(200)
  for (let n = 0; n < count; n += batch) {
    const size = Math.min(batch, count - n)
    const session = count <= 100 ? 's0' : `s${(n / batch) % 100}`
    await log.append({ session, events: Array.from({ length: size }, () => ({ type: 'note', data })) })
  }
}

/** Microseconds. The head is looked up first, as a client does that wants the end. */
async function readLast(log: SqliteLog): Promise<number> {
  const startedAt = performance.now()
  const { head } = await log.read({ session: 's0', after: Number.MAX_SAFE_INTEGER, limit: 1 })
  await log.read({ session: 's0', after: Math.max(-1, head - 100), limit: 100 })
  return (performance.now() - startedAt) * 1000
}
