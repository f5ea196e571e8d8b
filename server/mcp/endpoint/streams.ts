import type { ServerResponse } from 'node:http'

export interface StreamLimits {
  /** Unsent bytes of a stream beyond which its session is backed up. */
  readonly highWaterBytes: number
  /** Time without progress above the high water after which a stream is cut off. */
  readonly stallTimeoutMs: number
}

/**
 * The open answers of one MCP session. All that the transport gives is handed to the sockets at once, so that what a client does not read
 * is counted in one place: a session that is backed up gets no progress, and a stream that stalls is cut off (reliability.md §3.2).
 */
export class Streams {
  readonly #limits: StreamLimits
  readonly #open = new Set<ServerResponse>()

  constructor(limits: StreamLimits) {
    this.#limits = limits
  }

  get size(): number {
    return this.#open.size
  }

  get isBackedUp(): boolean {
    for (const response of this.#open) if (response.writableLength > this.#limits.highWaterBytes) return true
    return false
  }

  /** Sends a body until it or the client ends; `response` has its head already. Never rejects. */
  async send(body: ReadableStream<Uint8Array>, response: ServerResponse): Promise<void> {
    const reader = body.getReader()
    this.#open.add(response)
    const leave = (): void => {
      clearInterval(watch)
      this.#open.delete(response)
      reader.cancel().catch(() => undefined)
    }
    const watch = this.#cutWhenStalled(response)
    if (response.closed) leave()
    else response.once('close', leave)
    // A client should not have to wait for the first message to know that it is heard.
    inOneWrite(response, () => response.flushHeaders())
    for (let next = await read(reader); next !== undefined; next = await read(reader)) {
      const bytes = next
      inOneWrite(response, () => response.write(bytes))
    }
    response.end()
  }

  #cutWhenStalled(response: ServerResponse): NodeJS.Timeout {
    const { highWaterBytes, stallTimeoutMs } = this.#limits
    let sent = 0
    return setInterval(() => {
      const before = sent
      sent = response.socket?.bytesWritten ?? 0
      const unsent = response.writableLength
      if (unsent > highWaterBytes && sent === before) response.destroy()
    }, stallTimeoutMs).unref()
  }
}

/**
 * Head and first event, answer and end go to the socket together: by itself each cost a short call a packet. It is the socket that waits: Node 24
 * sends the end of a corked response before its last bytes.
 */
function inOneWrite({ socket }: ServerResponse, write: () => void): void {
  socket?.cork()
  write()
  process.nextTick(() => socket?.uncork())
}

/** The next bytes; undefined at the end, of whatever kind. */
async function read(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<Uint8Array | undefined> {
  try {
    return (await reader.read()).value
  } catch {
    return undefined
  }
}
