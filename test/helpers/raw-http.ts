import { connect } from 'node:net'

/** Sends bytes as they are and gives back everything until the server closes, or until `until` is found in it. */
export function sendRaw(port: number, bytes: string, until?: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1')
    let received = ''
    socket.setTimeout(10_000, () => socket.destroy(new Error(`no end came, only ${JSON.stringify(received)}`)))
    socket.on('connect', () => socket.write(bytes, 'latin1'))
    socket.on('data', (chunk: Buffer) => {
      received += chunk.toString('latin1')
      if (until !== undefined && received.includes(until)) socket.end()
    })
    socket.on('error', (error: Error & { code?: string }) => {
      if (error.code === 'ECONNRESET' && received !== '') resolve(received)
      else reject(error)
    })
    socket.on('close', () => resolve(received))
  })
}

/** The status of a raw answer, NaN for none. */
export const statusOf = (answer: string): number => Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1])

/** The text of a WebSocket upgrade. */
export function upgradeRequest(path: string, headers: Record<string, string>): string {
  const all = {
    Connection: 'Upgrade',
    Upgrade: 'websocket',
    'Sec-WebSocket-Version': '13',
    'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
    ...headers
  }
  return `GET ${path} HTTP/1.1\r\n${Object.entries(all)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')}\r\n`
}
