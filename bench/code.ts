import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { timeBoundCalls } from './bound-calls.ts'
import { median } from './median.ts'
import { type BenchServer, startToolwright } from './servers/start.ts'

const runs = Number(process.env['BENCH_RUNS'] ?? 100)
const together = 20
const calls = 100
const probeEveryMs = 10
/** What is started: the built server, or its source. */
const entry = process.env['BENCH_ENTRY'] ?? 'dist/server/main.js'

/** Where an fsync costs nothing: two of them are waited for by each call. */
const memoryDisk = '/dev/shm'

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

/**
 * Programs over HTTP: what the smallest costs when a spare world is ready and when there is none, bound calls beside the same calls
 * without a program, and what twenty at once do to the main loop.
 */
export async function benchCode(): Promise<void> {
  console.log(`run_code over HTTP of \`return 1\` (${runs} runs)\n`)
  console.log('backend       | world                       | p50 ms | p99 ms')
  for (const backend of backends) await timeStarts(backend)
  console.log(`\nms a call of a no-op tool in the durable log (${calls} calls)\n`)
  console.log('backend       | direct | in turn | added | at once')
  for (const backend of backends) await timeCalls(backend)
  console.log(`\n${together} programs of ${calls} calls at once; meanwhile the main loop, and a probe over HTTP\n`)
  console.log('backend       |   all ms | loop late, p99 ms |    max | busiest turn | probe, p99 ms')
  for (const backend of backends) await crowd(backend)
}

async function serve<Result>(
  backend: Backend,
  spareWorlds: number,
  measure: (server: BenchServer) => Promise<Result>,
  disk = tmpdir()
): Promise<Result> {
  const plugins = ['echo-plugin.js', 'loop-delay-plugin.js'].map((file) => join(import.meta.dirname, 'servers', file))
  const codeRuntime = { backend, spareWorlds, maxConcurrentRuns: together }
  const server = await startToolwright(backend, { presentation: { mode: 'both' }, plugins, codeRuntime }, entry, disk)
  try {
    await run(server, 'return 1')
    return await measure(server)
  } finally {
    await server.stop()
  }
}

async function timeStarts(backend: Backend): Promise<void> {
  const row = (world: string, all: number[]) =>
    console.log(line(backend, world.padEnd(27), fixed(median(all), 1, 6), fixed(percentile(all, 0.99), 1, 6)))
  const withSpare = async (server: BenchServer, where: string): Promise<void> => {
    const plain: number[] = []
    // A call without a program under the same circumstances: after a pause, on a loop that did something else meanwhile.
    const ready = async (): Promise<void> => {
      await spareOf(server)
      plain.push((await timed(server, { name: 'echo', arguments: { text: 'x' } })).ms)
      await spareOf(server)
    }
    row(`spare ready${where}`, await repeated(server, 'return 1', ready))
    row(`no program${where}`, plain)
  }
  await serve(backend, 1, async (server) => {
    await withSpare(server, '')
    row('back to back', await repeated(server, 'return 1'))
  })
  if (existsSync(memoryDisk)) {
    await serve(backend, 1, (server) => withSpare(server, ', disk of memory'), memoryDisk)
  }
  await serve(backend, 0, async (server) => row('no spare', await repeated(server, 'return 1')))
}

/** Times of runs over HTTP, each begun once `ready` resolves. */
async function repeated(
  server: BenchServer,
  code: string,
  ready: () => Promise<void> = async () => undefined
): Promise<number[]> {
  const all: number[] = []
  for (let n = 0; n < runs; n += 1) {
    await ready()
    all.push((await run(server, code)).ms)
  }
  return all
}

/** Resolves once a spare world is ready, as the server's metrics say, and nothing of the last run goes on. */
async function spareOf({ url, headers }: BenchServer): Promise<void> {
  for (;;) {
    const metrics = await (await fetch(`${url}/metrics`, { headers })).text()
    if (/^toolwright_worlds_spare [1-9]/m.test(metrics)) return
    await wait(probeEveryMs)
  }
}

async function timeCalls(backend: Backend): Promise<void> {
  const { sequential, parallel } = programs[backend]
  const { direct, bound } = await timeBoundCalls(backend, sequential, calls)
  const atOnce = await serve(backend, 1, (server) => returned(server, parallel))
  const cells = [fixed(direct, 2, 6), fixed(bound, 2, 7), fixed(bound - direct, 2, 5), fixed(atOnce / calls, 2, 7)]
  console.log(line(backend, ...cells))
}

/** The median of what a program returns in ten runs. */
async function returned(server: BenchServer, code: string): Promise<number> {
  const all: number[] = []
  for (let n = 0; n < 10; n += 1) all.push((await run(server, code)).result)
  return median(all)
}

/** Twenty programs of a hundred calls each; what the main loop did meanwhile is measured in it, beside how late an answer came. */
async function crowd(backend: Backend): Promise<void> {
  await serve(backend, 1, async (server) => {
    const probes: number[] = []
    await loopOf(server)
    const startedAt = performance.now()
    let isDone = false
    const programsOf = Array.from({ length: together }, (_, n) => run(server, programs[backend].parallel, `bench-${n}`))
    const all = Promise.all(programsOf).finally(() => (isDone = true))
    while (!isDone) {
      const at = performance.now()
      await (await fetch(`${server.url}/health/live`)).text()
      probes.push(performance.now() - at)
      await wait(probeEveryMs)
    }
    await all
    const ms = performance.now() - startedAt
    const { p99, max, busiest } = await loopOf(server)
    const loop = [fixed(p99, 1, 17), fixed(max, 1, 6), fixed(busiest, 1, 12)]
    console.log(line(backend, fixed(ms, 0, 8), ...loop, fixed(percentile(probes, 0.99), 1, 13)))
  })
}

/** What the server's own loop has seen since it was last asked. */
async function loopOf({ url, headers }: BenchServer): Promise<{ p99: number; max: number; busiest: number }> {
  const body = JSON.stringify({ name: 'loop_delay', arguments: {} })
  const response = await fetch(`${url}/invoke`, { method: 'POST', headers, body })
  return ((await response.json()) as { value: { p99: number; max: number; busiest: number } }).value
}

const line = (backend: Backend, ...cells: string[]): string => [backend.padEnd(13), ...cells].join(' | ')
const fixed = (value: number, digits: number, width: number): string => value.toFixed(digits).padStart(width)

async function run(server: BenchServer, code: string, session = 'bench'): Promise<{ ms: number; result: number }> {
  const { ms, value } = await timed(server, { session, name: 'run_code', arguments: { code, description: 'bench' } })
  return { ms, result: (value as { result: number }).result }
}

async function timed({ name, url, headers }: BenchServer, call: object): Promise<{ ms: number; value: unknown }> {
  const at = performance.now()
  const response = await fetch(`${url}/invoke`, { method: 'POST', headers, body: JSON.stringify(call) })
  const answer = (await response.json()) as { value?: unknown }
  if (answer.value === undefined) throw new Error(`${name}: ${response.status} ${JSON.stringify(answer)}`)
  return { ms: performance.now() - at, value: answer.value }
}

function percentile(all: readonly number[], share: number): number {
  const sorted = all.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}
