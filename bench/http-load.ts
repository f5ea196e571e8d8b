import autocannon from 'autocannon'
import { median } from './median.ts'
import type { BenchServer } from './servers/start.ts'

/** Seconds of load per measurement, and how often each is repeated, alternated, so that a busy machine meets all alike. */
export const seconds = Number(process.env['BENCH_SECONDS'] ?? 4)
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3)

export interface Measurement {
  perSecond: number
  p50: number
  p99: number
  cpuMicroseconds: number
}

/** POSTs for a while; throws where one is refused. */
export async function postsTo(
  server: BenchServer,
  options: Omit<autocannon.Options, 'url' | 'method'> & { path: string }
): Promise<Measurement> {
  const { path, ...rest } = options
  const before = server.cpuMs()
  const result = await autocannon({
    headers: server.headers,
    duration: seconds,
    ...rest,
    url: server.url + path,
    method: 'POST'
  })
  if (result.non2xx > 0 || result.errors > 0)
    throw new Error(`${server.name}: ${result.non2xx} refused, ${result.errors} failed`)
  return {
    perSecond: result.requests.average,
    p50: result.latency.p50,
    p99: result.latency.p99,
    cpuMicroseconds: ((server.cpuMs() - before) * 1000) / result.requests.total
  }
}

/** `POST /invoke` of the tool that does nothing. */
export const invokeEcho = (server: BenchServer, connections: number, duration = seconds): Promise<Measurement> =>
  postsTo(server, {
    path: '/invoke',
    body: JSON.stringify({ name: 'echo', arguments: { text: 'hello' } }),
    connections,
    duration
  })

/** Loads each server in turn, some rounds, and prints the medians, their ratio to the first server's. */
export async function compare(
  servers: readonly BenchServer[],
  connectionCounts: readonly number[],
  load: (server: BenchServer, connections: number) => Promise<Measurement>
): Promise<void> {
  console.log('connections | server        |  req/s | ratio | p50 ms | p99 ms | CPU µs/req')
  for (const connections of connectionCounts) {
    const measured = servers.map((): Measurement[] => [])
    for (let round = 0; round < rounds; round += 1) {
      for (const [index, server] of servers.entries()) measured[index]?.push(await load(server, connections))
    }
    const medians = measured.map((all) => medianOf(all))
    for (const [index, { perSecond, p50, p99, cpuMicroseconds }] of medians.entries()) {
      const cells = [
        String(connections).padStart(11),
        (servers[index]?.name ?? '').padEnd(13),
        perSecond.toFixed(0).padStart(6),
        (perSecond / (medians[0]?.perSecond ?? 0)).toFixed(2).padStart(5),
        p50.toFixed(1).padStart(6),
        p99.toFixed(1).padStart(6),
        cpuMicroseconds.toFixed(0).padStart(10)
      ]
      console.log(cells.join(' | '))
    }
  }
}

const medianOf = (all: readonly Measurement[]): Measurement => ({
  perSecond: median(all.map((one) => one.perSecond)),
  p50: median(all.map((one) => one.p50)),
  p99: median(all.map((one) => one.p99)),
  cpuMicroseconds: median(all.map((one) => one.cpuMicroseconds))
})
