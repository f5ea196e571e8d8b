import type { ServerResponse } from 'node:http'
import type { FrameSink } from '../../server/events/subscription.ts'
import type { Config } from '../../server/config/schema.ts'

/**
 * A Server-Sent Events answer as a sink for frames, under the same limits as a WebSocket: nothing is given to it beyond the high
 * water, and no progress for `stallTimeoutMs` cuts it off. Its head is written with the first frame, so that what goes wrong before
 * is still answered with a status of its own.
 */
export class EventStream implements FrameSink {
  readonly #response: ServerResponse
  readonly #limits: Config['ws']
  readonly #head: Record<string, string>
  readonly #waiting: (() => void)[] = []
  #progressAt = performance.now()

  constructor(response: ServerResponse, { limits, requestId }: { limits: Config['ws']; requestId: string }) {
    this.#response = response
    this.#limits = limits
    this.#head = {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      // Otherwise nginx holds events back until its buffer is full.
      'x-accel-buffering': 'no',
      'x-request-id': requestId
    }
    const beat = setInterval(() => this.#beat(), limits.pingIntervalMs)
    response.on('close', () => {
      clearInterval(beat)
      this.#wake()
    })
  }

  get isBackedUp(): boolean {
    // What is cut off takes no more; who waited for it would wait in a circle until it is closed.
    return !this.#response.destroyed && this.#response.writableLength > this.#limits.highWaterBytes
  }

  sendText(text: string): void {
    const response = this.#response
    if (response.destroyed || response.writableEnded) return
    if (!response.headersSent) response.writeHead(200, this.#head)
    response.write(text, () => this.#onSent())
  }

  whenWritable(): Promise<void> {
    return new Promise((resolve) => {
      if (!this.isBackedUp) resolve()
      else this.#waiting.push(resolve)
    })
  }

  /** Ends the stream; the client comes again with its `Last-Event-ID`. */
  end(): void {
    if (this.isBackedUp) this.#response.destroy()
    else this.#response.end()
  }

  #onSent(): void {
    this.#progressAt = performance.now()
    if (!this.isBackedUp) this.#wake()
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  /** A comment keeps proxies from giving up on a quiet stream, and finds out that the client is gone. */
  #beat(): void {
    // A refusal may still be the answer.
    if (!this.#response.headersSent) return
    if (!this.isBackedUp) this.sendText(': ping\n\n')
    else if (performance.now() - this.#progressAt >= this.#limits.stallTimeoutMs) this.#response.destroy()
  }
}
