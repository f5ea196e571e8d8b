import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { onTestFinished } from 'vitest'
import { makeServer } from '../fixtures/mcp/tools.js'

/** An MCP server over streamable HTTP, in the test's own process: with sessions, unless told. */
export class McpHttpServer {
  readonly url: string
  readonly transports = new Map<string, StreamableHTTPServerTransport>()
  /** How many sessions there have been. */
  opened = 0
  /** Tools that are listed besides those of the fixture. */
  extra: object[] = []
  readonly requests: { method: string; headers: IncomingMessage['headers'] }[] = []
  readonly #servers: ReturnType<typeof makeServer>[] = []
  readonly #isStateless: boolean

  private constructor(port: number, isStateless: boolean) {
    this.url = `http://127.0.0.1:${port}/mcp`
    this.#isStateless = isStateless
  }

  static async start({ isStateless = false }: { isStateless?: boolean } = {}): Promise<McpHttpServer> {
    const http = createServer((request, response) => {
      served.#serve(request, response).catch(() => response.destroy())
    })
    await once(http.listen(0, '127.0.0.1'), 'listening')
    const served = new McpHttpServer((http.address() as AddressInfo).port, isStateless)
    onTestFinished(async () => {
      http.close()
      http.closeAllConnections()
      await Promise.all([...served.transports.values()].map((transport) => transport.close()))
    })
    return served
  }

  /** As after a restart: it knows no session any more. */
  forget(): void {
    for (const transport of this.transports.values()) void transport.close()
    this.transports.clear()
  }

  async announceChange(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.sendToolListChanged().catch(() => {})))
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.requests.push({ method: request.method ?? '', headers: request.headers })
    const id = request.headers['mcp-session-id'] as string | undefined
    const known = id === undefined ? undefined : this.transports.get(id)
    if (known !== undefined) return known.handleRequest(request, response)
    if (id !== undefined && !this.#isStateless) {
      response.writeHead(404, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ jsonrpc: '2.0', error: { code: -32_001, message: 'Session not found' }, id: null }))
      return
    }
    const transport = this.#isStateless ? new StreamableHTTPServerTransport() : this.#session()
    const server = makeServer({ extra: () => this.extra })
    this.#servers.push(server)
    await server.connect(transport as never)
    await transport.handleRequest(request, response)
  }

  #session(): StreamableHTTPServerTransport {
    const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (id) => {
        this.opened += 1
        this.transports.set(id, transport)
      },
      onsessionclosed: (id) => void this.transports.delete(id)
    })
    return transport
  }
}
