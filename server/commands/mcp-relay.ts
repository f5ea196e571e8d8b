import { AsyncLocalStorage } from 'node:async_hooks'
import type { Readable, Writable } from 'node:stream'
import { StreamableHTTPClientTransport, StreamableHTTPError } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { type JSONRPCMessage, JSONRPCMessageSchema, type RequestId } from '@modelcontextprotocol/sdk/types.js'
import { inOneLine } from './output.ts'

export interface RelayOptions {
  /** The endpoint of a scope, and the token for it. */
  url: string
  token: string
  /** One JSON-RPC message a line, both ways. */
  input: Readable
  output: Writable
  /** Hears what no message can say. */
  note: (text: string) => void
}

const rpcParseError = -32_700
const rpcRefused = -32_000

/**
 * MCP over stdio in front of a server's MCP endpoint. Messages are handed on in their order, and requests as the very text that came, so that
 * no number is rounded on the way. When the server has forgotten the session, after a restart, the next message begins another one.
 */
export class McpRelay {
  readonly #options: RelayOptions
  readonly #sentText = new AsyncLocalStorage<string>()
  readonly #waiting = new Set<RequestId>()
  #transport: StreamableHTTPClientTransport
  #initialize: { text: string; message: JSONRPCMessage & { id: RequestId } } | undefined
  /** Hears the next answer to `initialize`. */
  #onInitialized: ((message: JSONRPCMessage) => void) | undefined
  #onQuiet: (() => void) | undefined
  #isEnding = false

  constructor(options: RelayOptions) {
    this.#options = options
    this.#transport = this.#newTransport()
  }

  /** Relays until the input ends and all that was asked is answered. */
  async run(): Promise<void> {
    await this.#transport.start()
    for await (const line of lines(this.#options.input)) await this.#take(line)
    if (this.#waiting.size > 0) await new Promise<void>((resolve) => (this.#onQuiet = resolve))
    await this.end()
  }

  /** Ends the session and what still runs in it. */
  async end(): Promise<void> {
    if (this.#isEnding) return
    this.#isEnding = true
    await this.#transport.terminateSession().catch(() => undefined)
    await this.#transport.close()
  }

  async #take(text: string): Promise<void> {
    let message: JSONRPCMessage
    try {
      message = JSONRPCMessageSchema.parse(JSON.parse(text))
    } catch {
      this.#write({ jsonrpc: '2.0', id: null, error: { code: rpcParseError, message: 'no JSON-RPC message' } })
      return
    }
    const id = 'method' in message && 'id' in message ? message.id : undefined
    if (id !== undefined) this.#waiting.add(id)
    try {
      await this.#deliver(text, message)
    } catch (error) {
      if (id === undefined) this.#options.note(reasonOf(error))
      else this.#fail(id, reasonOf(error))
    }
  }

  async #deliver(text: string, message: JSONRPCMessage): Promise<void> {
    if (isInitialize(message)) {
      this.#initialize = { text, message }
      this.#write(await this.#begin(text, message))
      return
    }
    try {
      await this.#send(text, message)
    } catch (error) {
      // 404 of the session, or of the scope, which the new session will not find either.
      if (!(error instanceof StreamableHTTPError) || error.code !== 404 || this.#initialize === undefined) throw error
      await this.#renew(this.#initialize)
      await this.#send(text, message)
    }
  }

  async #renew({ text, message }: { text: string; message: JSONRPCMessage }): Promise<void> {
    await this.#transport.close()
    this.#transport = this.#newTransport()
    await this.#transport.start()
    await this.#begin(text, message)
    await this.#send(undefined, { jsonrpc: '2.0', method: 'notifications/initialized' })
    this.#options.note('the server had forgotten the session; another one has begun')
  }

  /** Begins a session; gives the answer, which the client sees only if it has asked itself. */
  async #begin(text: string, message: JSONRPCMessage): Promise<JSONRPCMessage> {
    const answered = new Promise<JSONRPCMessage>((resolve) => (this.#onInitialized = resolve))
    await this.#send(text, message)
    const answer = await answered
    if ('result' in answer) this.#transport.setProtocolVersion(String(answer.result['protocolVersion']))
    return answer
  }

  #send(text: string | undefined, message: JSONRPCMessage): Promise<void> {
    const send = () => this.#transport.send(message)
    return text === undefined ? send() : this.#sentText.run(text, send)
  }

  #newTransport(): StreamableHTTPClientTransport {
    const transport = new StreamableHTTPClientTransport(new URL(this.#options.url), {
      requestInit: { headers: { authorization: `Bearer ${this.#options.token}` }, redirect: 'manual' },
      fetch: (url, init) => {
        const text = init?.method === 'POST' ? this.#sentText.getStore() : undefined
        return fetch(url, text === undefined ? init : { ...init, body: text })
      }
    })
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- the SDK knows no other way
    transport.onmessage = (message) => {
      const isAnswer = 'id' in message && !('method' in message)
      if (isAnswer && message.id === this.#initialize?.message.id && this.#onInitialized !== undefined) {
        this.#onInitialized(message)
        this.#onInitialized = undefined
        return
      }
      this.#write(message)
    }
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- as above
    transport.onerror = (error) => {
      if (this.#isEnding || transport !== this.#transport) return
      this.#options.note(inOneLine(error.message))
      // What ran may have run: its outcome is in the log of the server.
      if (!error.message.startsWith('Maximum reconnection attempts')) return
      for (const id of this.#waiting) this.#fail(id, 'the connection to the server is lost')
    }
    return transport
  }

  #fail(id: RequestId, message: string): void {
    this.#write({ jsonrpc: '2.0', id, error: { code: rpcRefused, message } })
  }

  #write(message: JSONRPCMessage | { jsonrpc: '2.0'; id: null; error: { code: number; message: string } }): void {
    this.#options.output.write(`${JSON.stringify(message)}\n`)
    if ('method' in message || !('id' in message) || message.id == null) return
    this.#waiting.delete(message.id)
    if (this.#waiting.size === 0) this.#onQuiet?.()
  }
}

const isInitialize = (message: JSONRPCMessage): message is JSONRPCMessage & { id: RequestId } =>
  'method' in message && 'id' in message && message.method === 'initialize'

/** What the server said of a refusal, or why it did not answer. */
function reasonOf(error: unknown): string {
  const { message, cause } = error as Error & { cause?: { code?: string; message?: string } }
  const refusal = /"code":\s*"?([\w-]+)"?,\s*"message":\s*"([^"]*)"/.exec(message)
  if (refusal !== null) return inOneLine(`${refusal[1]}: ${refusal[2]}`)
  return inOneLine(`the server does not answer: ${cause?.code ?? cause?.message ?? message}`)
}

/** The lines of UTF-8 text, without those that are empty. Only a line feed ends one: JSON may hold what readline takes for another. */
async function* lines(input: Readable): AsyncGenerator<string> {
  let rest: Buffer[] = []
  for await (const chunk of input as AsyncIterable<Buffer>) {
    let from = 0
    for (let at = chunk.indexOf(0x0a); at !== -1; at = chunk.indexOf(0x0a, from)) {
      const line = Buffer.concat([...rest, chunk.subarray(from, at)])
        .toString('utf8')
        .trim()
      rest = []
      from = at + 1
      if (line !== '') yield line
    }
    rest.push(chunk.subarray(from))
  }
  const last = Buffer.concat(rest).toString('utf8').trim()
  if (last !== '') yield last
}
