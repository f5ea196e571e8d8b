import autocannon from 'autocannon'
import { median } from './median.ts'
import { type BenchServer, startBareFastify, startToolwright } from './servers/start.ts'

/** Seconds of load per measurement, and how often each is repeated, alternated, so that a busy machine meets all alike. */
const seconds = Number(process.env['BENCH_SECONDS'] ?? 4)
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3)

interface Measurement {
  perSecond: number
  p50: number
  p99: number
  cpuMicroseconds: number
}

async function load(server: BenchServer, connections: number, duration: number): Promise<Measurement> {
  const cpuBefore = server.cpuMs()
  const result = await autocannon({
    url: `${server.url}/invoke`,
    method: 'POST',
    headers: server.headers,
    body: JSON.stringify({ name: 'echo', arguments: { text: 'hello' } }),
    connections,
    duration
  })
  if (result.non2xx > 0 || result.errors > 0)
    throw new Error(`${server.name}: ${result.non2xx} refused, ${result.errors} failed`)
  const cpuMs = server.cpuMs() - cpuBefore
  return {
    perSecond: result.requests.average,
    p50: result.latency.p50,
    p99: result.latency.p99,
    cpuMicroseconds: (cpuMs * 1000) / result.requests.total
  }
}

const medians = (all: Measurement[]): Measurement => ({
  perSecond: median(all.map((one) => one.perSecond)),
  p50: median(all.map((one) => one.p50)),
  p99: median(all.map((one) => one.p99)),
  cpuMicroseconds: median(all.map((one) => one.cpuMicroseconds))
})

/** `POST /invoke` of a no-op tool: with each kind of log, and the bare route as the yardstick. */
export async function benchInvoke(): Promise<void> {
  const servers = [
    await startBareFastify(),
    await startToolwright('log full'),
    await startToolwright('log normal', { store: { synchronous: 'normal' } }),
    await startToolwright('log in memory', {}, 'bench/servers/memory-log.ts')
  ]
  try {
    for (const server of servers) await load(server, 16, 2)
    console.log('POST /invoke of a no-op tool (medians; ratios are to bare Fastify in the same run)\n')
    console.log('connections | server        |  req/s | ratio | p50 ms | p99 ms | CPU µs/req')
    for (const connections of [1, 16, 64]) {
      const measured = new Map<string, Measurement[]>(servers.map(({ name }) => [name, []]))
      for (let round = 0; round < rounds; round += 1) {
        for (const server of servers) measured.get(server.name)?.push(await load(server, connections, seconds))
      }
      const base = medians(measured.get('bare Fastify') ?? [])
      for (const [name, all] of measured) {
        const { perSecond, p50, p99, cpuMicroseconds } = medians(all)
        const cells = [
          String(connections).padStart(11),
          name.padEnd(13),
          perSecond.toFixed(0).padStart(6),
          (perSecond / base.perSecond).toFixed(2).padStart(5),
          p50.toFixed(1).padStart(6),
          p99.toFixed(1).padStart(6),
          cpuMicroseconds.toFixed(0).padStart(10)
        ]
        console.log(cells.join(' | '))
      }
    }
  } finally {
    for (const server of servers) await server.stop()
  }
}
