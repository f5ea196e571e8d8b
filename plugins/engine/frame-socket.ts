import type { Socket } from 'node:net'
import type { FastifyBaseLogger } from 'fastify'
import type { WebSocket } from 'ws'
import type { Principal } from '../../server/auth/principal.ts'
import type { Config } from '../../server/config/schema.ts'
import type { JsonValue } from '../../server/json/lossless.ts'
import { stringifyJson } from '../../server/json/serialize.ts'
import { encodeFrame, joinFrames } from './frame-bytes.ts'
import type { FrameConnection } from './frames.ts'

/**
 * A WebSocket that never grows the server's memory (reliability.md §3.2, §1.9): what it sends beyond the high water stops it from
 * being read and its streams from being fed, and no progress for `stallTimeoutMs` closes it with 1013. The frames of one loop turn
 * leave in one write, of bytes that sockets with the same frames share (frame-bytes.ts).
 */
export class FrameSocket implements FrameConnection {
  readonly principal: Principal
  readonly log: FastifyBaseLogger
  readonly #ws: WebSocket
  readonly #raw: Socket
  readonly #limits: Config['ws']
  readonly #closed = new AbortController()
  readonly #waiting: (() => void)[] = []
  #pending: Buffer[] = []
  #pendingBytes = 0
  #awaitsPong = false
  #progressAt = performance.now()
  #beatAt = performance.now()
  #framesLeft: number

  constructor(
    ws: WebSocket,
    raw: Socket,
    options: { principal: Principal; log: FastifyBaseLogger; limits: Config['ws'] }
  ) {
    this.#ws = ws
    this.#raw = raw
    this.principal = options.principal
    this.log = options.log
    this.#limits = options.limits
    this.#framesLeft = options.limits.framesPerSecond
    ws.on('pong', () => {
      this.#awaitsPong = false
    })
    const refill = setInterval(() => this.#refill(), 1_000)
    const beat = setInterval(() => this.#beat(), options.limits.pingIntervalMs)
    ws.on('close', () => {
      clearInterval(refill)
      clearInterval(beat)
      this.#closed.abort()
      this.#wake()
    })
  }

  get closed(): AbortSignal {
    return this.#closed.signal
  }

  get isBackedUp(): boolean {
    return this.#ws.bufferedAmount + this.#pendingBytes > this.#limits.highWaterBytes
  }

  send(frame: object): void {
    this.sendText(stringifyJson(frame as JsonValue))
  }

  async sendInTurn(frame: object): Promise<void> {
    // One that waited as long may have been quicker.
    while (this.isBackedUp && !this.closed.aborted) await this.whenWritable()
    this.send(frame)
  }

  sendText(text: string): void {
    if (this.#ws.readyState !== this.#ws.OPEN) return
    const frame = encodeFrame(text)
    if (this.#pendingBytes === 0) {
      if (this.#ws.bufferedAmount === 0) this.#progressAt = performance.now()
      setImmediate(() => this.#flush())
    }
    this.#pending.push(frame)
    this.#pendingBytes += frame.length
    if (this.isBackedUp) this.#ws.pause()
  }

  whenWritable(): Promise<void> {
    return new Promise((resolve) => {
      if (!this.isBackedUp || this.closed.aborted) resolve()
      else this.#waiting.push(resolve)
    })
  }

  /** Ends the socket; `ws` cuts off a client that does not answer the close within its `closeTimeout`. */
  close(code: number, reason: string): void {
    this.#flush()
    this.#ws.close(code, reason)
    // A paused socket would never read the answer.
    this.#ws.resume()
  }

  /** Gives each message to `handle`; beyond the rate the rest is read later, so that a flood costs its sender and nobody else. */
  receive(handle: (text: string | undefined) => Promise<void>): void {
    this.#ws.on('message', (data: Buffer, isBinary) => {
      // Until the other side has answered our close its frames still come: a revoked token's must not be heard.
      if (this.#ws.readyState !== this.#ws.OPEN) return
      if (--this.#framesLeft <= 0) this.#ws.pause()
      void handle(isBinary ? undefined : data.toString())
    })
  }

  /** Writes what the turn brought, past `ws`, which frames and encodes each message for each socket anew. */
  #flush(): void {
    if (this.#pendingBytes === 0) return
    const bytes = joinFrames(this.#pending)
    this.#pending = []
    this.#pendingBytes = 0
    if (this.#ws.readyState === this.#ws.OPEN) this.#raw.write(bytes, () => this.#onSent())
  }

  #onSent(): void {
    this.#progressAt = performance.now()
    if (this.isBackedUp) return
    this.#resume()
    this.#wake()
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  #refill(): void {
    this.#framesLeft = this.#limits.framesPerSecond
    this.#resume()
  }

  #resume(): void {
    if (this.#framesLeft > 0 && !this.isBackedUp) this.#ws.resume()
  }

  /** While much is waiting to be sent, a ping would only queue behind it; then progress tells whether the client lives. */
  #beat(): void {
    const sinceBeat = performance.now() - this.#beatAt
    this.#beatAt += sinceBeat
    if (sinceBeat > 2 * this.#limits.pingIntervalMs) {
      // It was this process that was held up, or the machine slept: what the client did meanwhile is still to be read.
      this.#progressAt = this.#beatAt
      return
    }
    if (this.isBackedUp) {
      if (performance.now() - this.#progressAt >= this.#limits.stallTimeoutMs) this.close(1013, 'stalled')
      return
    }
    if (this.#awaitsPong) return this.close(1013, 'no pong')
    this.#awaitsPong = true
    this.#flush()
    this.#ws.ping()
  }
}
