import autocannon from 'autocannon'
import { median } from './median.ts'
import { type BenchServer, startToolwright } from './servers/start.ts'

const seconds = Number(process.env['BENCH_SECONDS'] ?? 4)
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3)

/** Rules that are all looked at, and let the call through. */
const rules = Array.from({ length: 20 }, (_, index) => ({
  name: `rule-${index}`,
  tools: `other_${index}_*`,
  decision: 'deny'
}))

const rates = [{ requests: 1_000_000, perMs: 1_000, burst: 1_000_000 }]
const limits = {
  perScope: { rates },
  tools: { echo: { concurrency: 256, rates } },
  perToken: { concurrency: 256, rates }
}

async function cpuOf(server: BenchServer, connections: number): Promise<{ perSecond: number; cpu: number }> {
  const before = server.cpuMs()
  const result = await autocannon({
    url: `${server.url}/invoke`,
    method: 'POST',
    headers: server.headers,
    body: JSON.stringify({ name: 'echo', arguments: { text: 'hello' } }),
    connections,
    duration: seconds
  })
  if (result.non2xx > 0) throw new Error(`${server.name}: ${result.non2xx} refused`)
  return { perSecond: result.requests.average, cpu: ((server.cpuMs() - before) * 1000) / result.requests.total }
}

/** What metrics, limits of all kinds, 20 permission rules and redaction cost `POST /invoke` together. */
export async function benchPolicies(): Promise<void> {
  process.env['BENCH_SECRET'] = 'nobody-says-this'
  const servers = [
    await startToolwright('without', { metrics: { enabled: false } }),
    await startToolwright('with all', { permissions: { rules }, limits, secrets: { environment: ['BENCH_SECRET'] } })
  ]
  try {
    for (const server of servers) await cpuOf(server, 16)
    console.log('POST /invoke of a no-op tool at 64 connections (medians): metrics, limits, 20 rules and redaction\n')
    const measured = servers.map(() => [] as { perSecond: number; cpu: number }[])
    for (let round = 0; round < rounds; round += 1) {
      for (const [index, server] of servers.entries()) measured[index]?.push(await cpuOf(server, 64))
    }
    const base = median(measured[0]?.map(({ perSecond }) => perSecond) ?? [])
    console.log('server    |  req/s | ratio | CPU µs/req')
    for (const [index, { name }] of servers.entries()) {
      const perSecond = median(measured[index]?.map((one) => one.perSecond) ?? [])
      const cpu = median(measured[index]?.map((one) => one.cpu) ?? [])
      const cells = [
        name.padEnd(9),
        perSecond.toFixed(0).padStart(6),
        (perSecond / base).toFixed(2).padStart(5),
        cpu.toFixed(0).padStart(10)
      ]
      console.log(cells.join(' | '))
    }
  } finally {
    for (const server of servers) await server.stop()
  }
}
