import { setTimeout as wait } from 'node:timers/promises'
import { median } from './median.ts'
import { type BenchServer, startToolwright } from './servers/start.ts'

const runs = Number(process.env['BENCH_RUNS'] ?? 100)
const together = 20
const calls = 100
const probeEveryMs = 10
/** What is started: the built server, or its source. */
const entry = process.env['BENCH_ENTRY'] ?? 'dist/server/main.js'

const backends = ['process', 'worker-thread', 'python'] as const
type Backend = (typeof backends)[number]

/** Programs that time calls of a no-op tool themselves and return milliseconds: one after another, and all at once. */
const typescript = {
  sequential: `const at = performance.now(); for (let n = 0; n < ${calls}; n += 1) await tools.echo({ text: 'x' }); return performance.now() - at`,
  parallel: `const at = performance.now(); await Promise.all(Array.from({ length: ${calls} }, () => tools.echo({ text: 'x' }))); return performance.now() - at`
}
const programs: Record<Backend, { sequential: string; parallel: string }> = {
  process: typescript,
  'worker-thread': typescript,
  python: {
    sequential: `import time\nat = time.perf_counter()\nfor _ in range(${calls}):\n  await tools.echo({'text': 'x'})\nreturn (time.perf_counter() - at) * 1000`,
    parallel: `import asyncio, time\nat = time.perf_counter()\nawait asyncio.gather(*[tools.echo({'text': 'x'}) for _ in range(${calls})])\nreturn (time.perf_counter() - at) * 1000`
  }
}

/** Programs over HTTP: what the smallest costs with and without a spare world, bound calls, and what twenty at once do to the main loop. */
export async function benchCode(): Promise<void> {
  console.log(`run_code over HTTP (${runs} runs; calls of a program are of a no-op tool, each in the durable log)\n`)
  console.log(
    `backend       | spares | p50 ms | p99 ms | ms a call: in turn | at once | ${together} at once, ms | meanwhile a probe, p99 | max`
  )
  for (const backend of backends) {
    for (const spareWorlds of [0, 1]) await measure(backend, spareWorlds)
  }
}

async function measure(backend: Backend, spareWorlds: number): Promise<void> {
  const server = await startToolwright(
    backend,
    { presentation: { mode: 'both' }, codeRuntime: { backend, spareWorlds, maxConcurrentRuns: together } },
    entry
  )
  try {
    await run(server, 'return 1')
    const single: number[] = []
    for (let n = 0; n < runs; n += 1) {
      // As far apart as an agent's programs are at least: a spare is ready again.
      if (spareWorlds > 0) await wait(100)
      single.push((await run(server, 'return 1')).ms)
    }
    const { sequential, parallel } = programs[backend]
    const inTurn = await repeated(server, sequential)
    const atOnce = await repeated(server, parallel)
    const crowd = await crowded(server, parallel)
    const cells = [
      backend.padEnd(13),
      String(spareWorlds).padStart(6),
      median(single).toFixed(1).padStart(6),
      percentile(single, 0.99).toFixed(1).padStart(6),
      (inTurn / calls).toFixed(2).padStart(18),
      (atOnce / calls).toFixed(2).padStart(7),
      crowd.ms.toFixed(0).padStart(14),
      percentile(crowd.probes, 0.99).toFixed(1).padStart(22),
      Math.max(...crowd.probes).toFixed(1)
    ]
    console.log(cells.join(' | '))
  } finally {
    await server.stop()
  }
}

/** The median of what a program returns in ten runs. */
async function repeated(server: BenchServer, code: string): Promise<number> {
  const all: number[] = []
  for (let n = 0; n < 10; n += 1) all.push((await run(server, code)).result)
  return median(all)
}

/** Twenty programs of a hundred calls each, and how long the server takes over a trivial request meanwhile. */
async function crowded(server: BenchServer, code: string): Promise<{ ms: number; probes: number[] }> {
  const probes: number[] = []
  const all = Promise.all(Array.from({ length: together }, (_, n) => run(server, code, `bench-${n}`)))
  let isDone = false
  const startedAt = performance.now()
  const finished = all.finally(() => (isDone = true))
  while (!isDone) {
    const at = performance.now()
    await (await fetch(`${server.url}/health/live`)).text()
    probes.push(performance.now() - at)
    await wait(probeEveryMs)
  }
  await finished
  return { ms: performance.now() - startedAt, probes }
}

async function run(server: BenchServer, code: string, session = 'bench'): Promise<{ ms: number; result: number }> {
  const at = performance.now()
  const response = await fetch(`${server.url}/invoke`, {
    method: 'POST',
    headers: server.headers,
    body: JSON.stringify({ session, name: 'run_code', arguments: { code, description: 'bench' } })
  })
  const answer = (await response.json()) as { value?: { result: number }; error?: { message: string } }
  if (answer.value === undefined) throw new Error(`${server.name}: ${response.status} ${JSON.stringify(answer)}`)
  return { ms: performance.now() - at, result: answer.value.result }
}

function percentile(all: readonly number[], share: number): number {
  const sorted = all.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}
