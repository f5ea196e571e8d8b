// The yardstick of the MCP endpoint: the SDK's own server, stateful, with one tool that does nothing.
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js'

/** @type {Map<string, StreamableHTTPServerTransport>} */
const sessions = new Map()

async function newTransport() {
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => void sessions.set(id, transport)
  })
  const server = new Server({ name: 'bench', version: '1' }, { capabilities: { tools: {} } })
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: [{ name: 'echo', description: 'Gives its text back.', inputSchema: { type: 'object' } }]
  }))
  server.setRequestHandler(CallToolRequestSchema, ({ params }) => {
    const text = String(params.arguments?.['text'])
    return { content: [{ type: 'text', text }], structuredContent: { value: text } }
  })
  await server.connect(transport)
  return transport
}

/** @type {(request: import('node:http').IncomingMessage, response: import('node:http').ServerResponse) => Promise<void>} */
async function answer(request, response) {
  const id = request.headers['mcp-session-id']
  const transport = (typeof id === 'string' ? sessions.get(id) : undefined) ?? (await newTransport())
  await transport.handleRequest(request, response)
}

const server = createServer((request, response) => void answer(request, response))
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  process.stdout.write(`listening ${typeof address === 'object' && address ? address.port : 0}\n`)
})
