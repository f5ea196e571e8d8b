import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo, createServer as createSocketServer, type Server, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** A server that a test fetches from: what it was asked, and which connections are open. */
export interface WebServer {
  /** Without a slash at the end. */
  origin: string
  port: number
  /** Method and path of each request; for a raw server, the first bytes of each connection. */
  asked: string[]
  sockets: Set<Socket>
  /** Takes no new connections any more. */
  stopListening: () => void
}

/** An HTTP server on an address of this machine, gone after the test. */
export function serveWeb(listener: RequestListener, host = '127.0.0.1'): Promise<WebServer> {
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`)
    listener(request, response)
  })
  return listening(server, host, asked)
}

/** A server that says just what it is told to, HTTP or not. */
export function serveBytes(answer: (socket: Socket) => void, host = '127.0.0.1'): Promise<WebServer> {
  const asked: string[] = []
  const server = createSocketServer((socket) => {
    socket.once('data', (data) => {
      asked.push(data.toString('latin1'))
      answer(socket)
    })
  })
  return listening(server, host, asked)
}

async function listening(server: Server, host: string, asked: string[]): Promise<WebServer> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
  })
  server.listen(0, host)
  await once(server, 'listening')
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
  const { port } = server.address() as AddressInfo
  return {
    origin: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    port,
    asked,
    sockets,
    stopListening: () => void server.close()
  }
}
