import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { type BenchServer, startMcpSdk, startToolwright } from './servers/start.ts'

const calls = 500

async function timesOf(call: () => Promise<unknown>): Promise<{ p50: number; p99: number }> {
  for (let warmUp = 0; warmUp < 50; warmUp += 1) await call()
  const times: number[] = []
  for (let count = 0; count < calls; count += 1) {
    const begun = performance.now()
    await call()
    times.push(performance.now() - begun)
  }
  times.sort((a, b) => a - b)
  return { p50: times[Math.floor(calls / 2)] ?? 0, p99: times[Math.floor(calls * 0.99)] ?? 0 }
}

async function invoke({ url, headers }: BenchServer, name: string): Promise<void> {
  const body = JSON.stringify({ name, arguments: { text: 'hello' } })
  const answer = (await (await fetch(`${url}/invoke`, { method: 'POST', headers, body })).json()) as {
    isError: boolean
  }
  if (answer.isError) throw new Error(`${name}: ${JSON.stringify(answer)}`)
}

/** What a call of an MCP server's tool takes through the bridge, beside the same call without it, and one of a tool of our own. */
export async function benchBridge(): Promise<void> {
  const upstream = await startMcpSdk()
  const url = `${upstream.url}/mcp`
  const server = await startToolwright('bridge', { mcp: { servers: { up: { transport: 'streamable-http', url } } } })
  const client = new Client({ name: 'bench', version: '1' })
  try {
    await client.connect(new StreamableHTTPClientTransport(new URL(url)))
    const direct = () => client.callTool({ name: 'echo', arguments: { text: 'hello' } })
    const rows = [
      ['the upstream, directly', await timesOf(direct)],
      ['POST /invoke of our own no-op tool', await timesOf(() => invoke(server, 'echo'))],
      ['POST /invoke of the upstream’s tool', await timesOf(() => invoke(server, 'mcp__up__echo'))]
    ] as const
    console.log(`${calls} calls one after the other, of a no-op tool of an MCP server over streamable HTTP\n`)
    console.log('call                                | p50 ms | p99 ms')
    for (const [name, { p50, p99 }] of rows) {
      console.log(`${name.padEnd(35)} | ${p50.toFixed(2).padStart(6)} | ${p99.toFixed(2).padStart(6)}`)
    }
    const [straight, own, bridged] = rows.map(([, { p50 }]) => p50) as [number, number, number]
    console.log(`\nadded to both: ${(bridged - straight - own).toFixed(2)} ms at p50`)
  } finally {
    await client.close()
    await server.stop()
    await upstream.stop()
  }
}
