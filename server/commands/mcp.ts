import { defineCommand } from './command.ts'
import { connectionOptions, findServer, scopeOption } from './connection.ts'

export const mcp = defineCommand({
  name: 'mcp',
  usage: '',
  summary: 'serve a scope of a running server as an MCP server on standard input and output',
  details: [
    'For MCP clients that start a process. Nothing but the protocol is on standard output. It ends with its input, and the MCP session with it.'
  ],
  options: { scope: { ...scopeOption.scope, description: 'The scope; global if absent.' }, ...connectionOptions },
  examples: [['mcp --scope agent-7', 'as the command of an MCP client']],
  run: async ({ values, env }) => {
    // Loaded only then: the other commands need nothing of it.
    const { McpRelay } = await import('./mcp-relay.ts')
    const { url, token } = findServer(values, env)
    const relay = new McpRelay({
      url: `${url}/scopes/${encodeURIComponent(values.scope ?? 'global')}/mcp`,
      token,
      input: process.stdin,
      output: process.stdout,
      note: (text) => void process.stderr.write(`toolwright: ${text}\n`)
    })
    const stop = (): void => void relay.end().then(() => process.exit(0))
    process.once('SIGTERM', stop).once('SIGINT', stop)
    await relay.run()
  }
})
