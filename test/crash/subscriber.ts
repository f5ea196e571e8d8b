import { once } from 'node:events'
import { WebSocket } from 'ws'
import { type ServerProcess, token } from './server-process.ts'

/** An event as a subscriber keeps it. */
export interface Seen {
  session: string
  seq: number
  position: number
  type: string
}

interface Wanted {
  session?: string
  events?: string[]
}

/** A client that subscribes anew whenever its server is there again, from the last event it saw. */
export class Subscriber {
  readonly seen: Seen[] = []
  readonly #wanted: Wanted
  #logId: string | undefined

  constructor(wanted: Wanted = {}) {
    this.#wanted = wanted
  }

  /** Resolves when it is subscribed; it goes on hearing until the server is gone. */
  async connect(server: ServerProcess): Promise<void> {
    const socket = new WebSocket(`${server.url.replace('http', 'ws')}/events`, 'toolwright.v1', {
      headers: { authorization: `Bearer ${token}` }
    })
    socket.on('error', () => {})
    await once(socket, 'open')
    const logId = this.#logId === undefined ? {} : { logId: this.#logId }
    const subscribed = new Promise<void>((resolve, reject) => {
      socket.on('message', (data: Buffer) => {
        const frame = JSON.parse(data.toString())
        if (frame.type === 'error') return reject(new Error(`a subscriber was told ${data.toString()}`))
        if (frame.type === 'subscribed') {
          this.#logId = frame.logId
          resolve()
        }
        if (frame.type === 'event' && frame.event.seq !== undefined) this.#see(frame.event)
      })
      socket.on('close', () => resolve())
    })
    socket.send(JSON.stringify({ type: 'subscribe', id: 'x', after: this.#cursor(), ...this.#wanted, ...logId }))
    await subscribed
  }

  #cursor(): number {
    const last = this.seen.at(-1)
    if (last === undefined) return -1
    return this.#wanted.session === undefined ? last.position : last.seq
  }

  #see({ session, seq, position, type }: Seen): void {
    this.seen.push({ session, seq, position, type })
  }
}

/** The same over Server-Sent Events, from the `Last-Event-ID`. */
export class StreamSubscriber {
  readonly positions: number[] = []

  async connect(server: ServerProcess): Promise<void> {
    const last = this.positions.at(-1)
    const answer = await fetch(`${server.url}/events?after=-1`, {
      headers: {
        authorization: `Bearer ${token}`,
        accept: 'text/event-stream',
        ...(last === undefined ? {} : { 'last-event-id': String(last) })
      }
    })
    if (answer.status !== 200) throw new Error(`the event stream was answered with ${answer.status}`)
    void this.#read(answer.body as ReadableStream<Uint8Array>)
  }

  async #read(body: ReadableStream<Uint8Array>): Promise<void> {
    let text = ''
    const decoder = new TextDecoder()
    try {
      for await (const chunk of body) {
        text += decoder.decode(chunk, { stream: true })
        const messages = text.split('\n\n')
        text = messages.pop() ?? ''
        for (const message of messages) {
          const id = /^id: (\d+)$/m.exec(message)?.[1]
          if (id !== undefined) this.positions.push(Number(id))
        }
      }
    } catch {
      // The server was killed.
    }
  }
}
