import autocannon from 'autocannon'
import { median } from './median.ts'
import { type BenchServer, startMcpSdk, startToolwright } from './servers/start.ts'

const seconds = Number(process.env['BENCH_SECONDS'] ?? 4)
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3)

interface Measurement {
  perSecond: number
  p50: number
  p99: number
  cpuMicroseconds: number
}

const initialize = {
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'bench', version: '1' } }
}
const accept = 'application/json, text/event-stream'

/** Calls in one session of the server, each under an id of its own. */
async function load(server: BenchServer, connections: number, duration: number): Promise<Measurement> {
  const url = `${server.url}/scopes/global/mcp`
  const headers = { ...server.headers, accept }
  const opened = await fetch(url, { method: 'POST', headers, body: JSON.stringify(initialize) })
  await opened.text()
  const cpuBefore = server.cpuMs()
  const result = await autocannon({
    url,
    method: 'POST',
    headers: {
      ...headers,
      'mcp-session-id': opened.headers.get('mcp-session-id') ?? '',
      'mcp-protocol-version': '2025-11-25'
    },
    body: '{"jsonrpc":"2.0","id":"[<id>]","method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}',
    idReplacement: true,
    connections,
    duration
  })
  if (result.non2xx > 0 || result.errors > 0)
    throw new Error(`${server.name}: ${result.non2xx} refused, ${result.errors} failed`)
  return {
    perSecond: result.requests.average,
    p50: result.latency.p50,
    p99: result.latency.p99,
    cpuMicroseconds: ((server.cpuMs() - cpuBefore) * 1000) / result.requests.total
  }
}

const medians = (all: Measurement[]): Measurement => ({
  perSecond: median(all.map((one) => one.perSecond)),
  p50: median(all.map((one) => one.p50)),
  p99: median(all.map((one) => one.p99)),
  cpuMicroseconds: median(all.map((one) => one.cpuMicroseconds))
})

/** `tools/call` of a no-op tool over MCP: with the durable log and with one in memory, and the SDK's own server as the yardstick. */
export async function benchMcp(): Promise<void> {
  const servers = [
    await startMcpSdk(),
    await startToolwright('log full'),
    await startToolwright('log in memory', {}, 'bench/servers/memory-log.ts')
  ]
  try {
    for (const server of servers) await load(server, 16, 1)
    console.log('tools/call of a no-op tool over MCP (medians; ratios are to the SDK’s server in the same run)\n')
    console.log('connections | server        |  req/s | ratio | p50 ms | p99 ms | CPU µs/req')
    for (const connections of [1, 16]) {
      const measured = new Map<string, Measurement[]>(servers.map(({ name }) => [name, []]))
      for (let round = 0; round < rounds; round += 1) {
        for (const server of servers) measured.get(server.name)?.push(await load(server, connections, seconds))
      }
      const base = medians(measured.get('MCP SDK') ?? [])
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
