import type { JSONRPCMessage, JSONRPCNotification, JSONRPCRequest } from '@modelcontextprotocol/sdk/types.js'
import type { ProcessHandle, Subprocesses } from '../../backends/subprocess/subprocess.ts'
import { stringifyJson } from '../../json/serialize.ts'
import type { JsonValue } from '../../json/lossless.ts'
import { type LineFrame, LineFrames } from './line-frames.ts'
import type { LinkTransport } from './link-transport.ts'
import type { MessagePace } from './message-pace.ts'
import { NumberWatch } from './number-watch.ts'
import { refusedMessage, takenMessage } from './refused-message.ts'

/** What a server is given to end by itself once its input is closed. */
const politeMs = 1_000
const graceMs = 1_500
/** After which a tree that is not gone counts as stuck (backends.md §10). */
const confirmMs = 5_000
/** What a descendant that holds the output may delay the news that the server itself has ended. */
const drainMs = 100
/** Lines of a server that never ends one are passed over so many times the largest message. */
const maxPassedOver = 8

export interface StdioTransportOptions {
  readonly subprocesses: Subprocesses
  readonly argv: readonly [string, ...string[]]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
  /** Of one message, and of what may wait to be written. */
  readonly maxMessageBytes: number
  readonly pace: MessagePace
  /** A piece of standard error, which is always read: a full pipe would stop the server (F57). */
  readonly onStderr: (chunk: Buffer) => void
}

/** An MCP server in a managed process tree, a message a line over its standard streams (backends.md §2, §10). */
export class StdioTransport implements LinkTransport {
  onclose?: (() => void) | undefined
  onerror?: ((error: Error) => void) | undefined
  onmessage?: ((message: JSONRPCMessage) => void) | undefined
  readonly #options: StdioTransportOptions
  readonly #frames: LineFrames
  /** Calls of tools that are not answered yet. */
  readonly #calls = new Set<unknown>()
  #handle: ProcessHandle | undefined
  /** What was printed and not looked at yet; while the pace holds it back, nothing more is read. */
  #unread: Buffer = Buffer.alloc(0)
  #pause: NodeJS.Timeout | undefined
  #isClosed = false
  #end: Promise<boolean> | undefined

  constructor(options: StdioTransportOptions) {
    this.#options = options
    this.#frames = new LineFrames(options.maxMessageBytes, (frame) => this.#receive(frame))
  }

  /** Rejects with `SpawnError` where nothing was started. */
  async start(): Promise<void> {
    const { subprocesses, argv, cwd, env, onStderr } = this.#options
    const modes = { stdin: 'pipe', stdout: 'pipe', stderr: 'pipe' } as const
    const handle = subprocesses.spawn({ argv, cwd, env, ...modes, graceMs, drainMs })
    this.#handle = handle
    handle.stderr?.on('data', onStderr)
    handle.stdout?.on('data', (chunk: Buffer) => {
      if (this.#isClosed) return
      const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
      // What was still on its way when the stream was paused comes all the same.
      this.#unread = this.#unread.length === 0 ? bytes : Buffer.concat([this.#unread, bytes])
      if (this.#pause === undefined) this.#read()
    })
    handle.stdout?.once('end', () => this.#finish())
    if ((await handle.started) === -1) await handle.done
    // What it has printed until then comes first.
    const onExit = (): void => void setImmediate(() => this.#finish())
    handle.done.then(onExit, onExit)
  }

  /** Looks at what was printed line by line, no faster than the pace says; one that ends while it is held back is not heard to its end. */
  #read(): void {
    const { maxMessageBytes, pace } = this.#options
    while (this.#unread.length > 0 && !this.#isClosed) {
      this.#unread = this.#frames.take(this.#unread)
      if (this.#frames.pendingBytes > maxPassedOver * maxMessageBytes) this.#fail('it prints a line without an end')
      const waitMs = pace.spend(1)
      if (waitMs > 0) return this.#readLater(waitMs)
    }
  }

  #readLater(waitMs: number): void {
    const stdout = this.#handle?.stdout
    stdout?.pause()
    this.#pause = setTimeout(() => {
      this.#pause = undefined
      this.#read()
      if (this.#pause === undefined) stdout?.resume()
    }, waitMs)
    this.#pause.unref()
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const stdin = this.#handle?.stdin
    if (stdin === undefined || this.#isClosed) throw new Error('the server has ended')
    if ('method' in message) this.#note(message)
    stdin.write(`${stringifyJson(message as unknown as JsonValue)}\n`)
    // One that asks and never reads would have its answers pile up here.
    if (stdin.writableLength > 2 * this.#options.maxMessageBytes) this.#fail('it does not read what it is sent')
  }

  async close(): Promise<void> {
    await this.end()
  }

  end(): Promise<boolean> {
    this.#finish()
    this.#end ??= this.#endTree()
    return this.#end
  }

  async #endTree(): Promise<boolean> {
    const handle = this.#handle
    if (handle === undefined) return true
    handle.stdin?.end()
    if (await handle.waitForExit(AbortSignal.timeout(politeMs))) return true
    handle.terminate()
    return handle.waitForExit(AbortSignal.timeout(confirmMs - politeMs))
  }

  /** The connection is over, whoever ended it; a descendant that goes on is ended too. */
  #finish(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#end ??= this.#endTree()
    this.onclose?.()
  }

  #fail(reason: string): void {
    this.onerror?.(new Error(`the server is disconnected: ${reason}`))
    this.#finish()
  }

  #note({ method, params, ...rest }: JSONRPCRequest | JSONRPCNotification): void {
    if (method === 'tools/call' && 'id' in rest) this.#calls.add(rest.id)
    else if (method === 'notifications/cancelled') this.#calls.delete(params?.['requestId'])
  }

  #receive(frame: LineFrame): void {
    if (this.#isClosed) return
    if (frame.kind === 'noise') {
      this.onerror?.(new Error(`a line that is no message: ${frame.text.slice(0, 200)}`))
      return
    }
    const refused = frame.kind === 'refused'
    if (refused && frame.answered === undefined) return this.#fail(`a message is ${frame.reason.replace('-', ' ')}`)
    const message = refused ? refusedMessage(frame.answered!, frame.reason) : this.#taken(frame)
    try {
      this.onmessage?.(message)
    } catch (error) {
      this.onerror?.(error as Error)
    }
  }

  /** An answer to a call with a number that is rounded by now is none. */
  #taken({ message, line }: Extract<LineFrame, { kind: 'message' }>): JSONRPCMessage {
    const taken = takenMessage(message)
    if ('method' in taken || !('id' in taken) || !this.#calls.delete(taken.id)) return taken
    const numbers = new NumberWatch()
    numbers.add(line)
    return numbers.hasUnsafe ? refusedMessage(Number(taken.id), 'rounded') : taken
  }
}
