import { compare, type Measurement, postsTo, seconds } from './http-load.ts'
import { type BenchServer, startMcpSdk, startToolwright } from './servers/start.ts'

const initialize = {
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'bench', version: '1' } }
}
const accept = 'application/json, text/event-stream'

/** Calls in one session of the server, each under an id of its own. */
async function load(server: BenchServer, connections: number, duration = seconds): Promise<Measurement> {
  const path = '/scopes/global/mcp'
  const headers = { ...server.headers, accept }
  const opened = await fetch(server.url + path, { method: 'POST', headers, body: JSON.stringify(initialize) })
  await opened.text()
  return postsTo(server, {
    path,
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
}

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
    await compare(servers, [1, 16], load)
  } finally {
    for (const server of servers) await server.stop()
  }
}
