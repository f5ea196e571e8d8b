import { setTimeout as wait } from 'node:timers/promises'
import { featuresOf } from '../crash/harness.ts'
import { type Features, Load } from '../crash/load.ts'
import { Random } from '../crash/random.ts'
import { ServerProcess, token } from '../crash/server-process.ts'
import { until } from '../helpers/until.ts'
import { type Holdings, holdingsOf, memoryOf, more } from '../hygiene/server-process.ts'
import { faults } from './faults.ts'

export interface SoakReport {
  seconds: number
  calls: number
  faults: number
  /** Resident memory in MiB at the end of each fifth of the time, once the first fifth had warmed it up. */
  memoryMb: number[]
  /** Milliseconds of a small call beside the load, in each fifth. */
  p50Ms: number[]
  p99Ms: number[]
  /** What the server held after the load that it did not hold before it, when all was quiet: nothing. */
  extra: Holdings
}

const fifths = 5

/**
 * Mixed load with faults against the built server for a while. Rejects with an answer that must not be, and reports what should be
 * flat: memory, descriptors, processes, latency.
 */
export async function soak({
  home,
  seconds,
  seed
}: {
  home: string
  seconds: number
  seed: number
}): Promise<SoakReport> {
  const server = await ServerProcess.start({
    home,
    settings: {
      http: { maxRequestsPerSocket: 50, keepAliveTimeoutMs: 500 },
      // What else the machine does may hold the loop up for longer than by default, and no answer may be a refusal here.
      shedding: { maxLoopDelayMs: 0 }
    }
  })
  try {
    return await soaked(server, seconds, new Random(seed))
  } catch (error) {
    await server.kill()
    throw error
  }
}

async function soaked(server: ServerProcess, seconds: number, random: Random): Promise<SoakReport> {
  const features = await featuresOf(server)
  const load = new Load(random, features)
  // What is made once and kept is there after some of it.
  await during(server, load, wait(Math.min(seconds, 50) * 200))
  await settled(server, features)
  const before = holdingsOf(server.pid)
  const report: SoakReport = {
    seconds,
    calls: 0,
    faults: 0,
    memoryMb: [],
    p50Ms: [],
    p99Ms: [],
    extra: { descriptors: [], descendants: [] }
  }
  const stop = new AbortController()
  const over = wait((seconds * 1_000 * (fifths - 1)) / fifths).then(() => stop.abort())
  const isOver = (): boolean => stop.signal.aborted
  await Promise.all([
    during(server, load, over),
    ...[0, 1].map(async () => {
      while (!isOver()) await random.pick(faults)(server, random, (report.faults += 1))
    }),
    measured(server, report, { isOver, everyMs: (seconds * 1_000) / fifths })
  ])
  report.calls = load.acked.length
  await settled(server, features)
  const extra = (): Holdings => {
    const after = holdingsOf(server.pid)
    return {
      descriptors: more(after.descriptors, before.descriptors),
      descendants: more(after.descendants, before.descendants)
    }
  }
  await until(() => Object.values(extra()).flat().length === 0, 60_000).catch(() => undefined)
  report.extra = extra()
  await server.stop()
  return report
}

const during = (server: ServerProcess, load: Load, end: Promise<unknown>): Promise<void> =>
  Promise.race([
    load.run(server, end),
    server.exited.then(() => {
      throw new Error('the server ended')
    })
  ])

/** Until nothing that was called runs any more, and the world of the next program is there. */
async function settled(server: ServerProcess, { code }: Features): Promise<void> {
  await until(async () => (await server.request('GET', '/approvals?state=pending')).body.approvals.length === 0, 60_000)
  const headers = { authorization: `Bearer ${token}` }
  const metrics = async (): Promise<string> => (await fetch(`${server.url}/metrics`, { headers })).text()
  if (code) await until(async () => /^toolwright_worlds_spare [1-9]/m.test(await metrics()), 60_000)
}

async function measured(
  server: ServerProcess,
  report: SoakReport,
  { isOver, everyMs }: { isOver: () => boolean; everyMs: number }
): Promise<void> {
  while (!isOver()) {
    const times: number[] = []
    const end = performance.now() + everyMs
    while (performance.now() < end && !isOver()) {
      const begun = performance.now()
      await server.request('POST', '/invoke', { session: 'probe', name: 'note', arguments: { text: 'probe' } })
      times.push(performance.now() - begun)
      await wait(20)
    }
    times.sort((a, b) => a - b)
    if (times.length === 0) return
    report.p50Ms.push(Math.round(times[Math.floor(times.length / 2)] ?? 0))
    report.p99Ms.push(Math.round(times[Math.floor(times.length * 0.99)] ?? 0))
    report.memoryMb.push(Math.round(memoryOf(server.pid) / 1024 ** 2))
  }
}
