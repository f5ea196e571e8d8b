import { setTimeout as sleep } from 'node:timers/promises'
import { MessageGauge } from './message-gauge.ts'
import type { MessagePace } from './message-pace.ts'
import { NumberWatch } from './number-watch.ts'
import { type Refusal, refusedMessage } from './refused-message.ts'

export interface ResponseBounds {
  readonly maxMessageBytes: number
  readonly pace: MessagePace
  /** The request that the response answers; absent for the stream of notices. */
  readonly answers: number | undefined
  /** That request was a call of a tool: no number of its value may be rounded. */
  readonly isCall: boolean
  /** The response has been read to its end, or given up. */
  readonly onEnd: () => void
}

/** A response that is one message, which is not taken. */
export class RefusedBodyError extends Error {
  readonly refusal: Refusal

  constructor(refusal: Refusal) {
    super(`a message is ${refusal.replace('-', ' ')}`)
    this.refusal = refusal
  }
}

/**
 * A response whose messages keep to the limits. What does not, and a stream that breaks off before its answer, fails the one request
 * that waits for it, at once: the SDK would go on waiting until its time is over.
 */
export function boundedResponse(response: Response, bounds: ResponseBounds): Response {
  const { body, status, statusText, headers } = response
  if (body === null) {
    bounds.onEnd()
    return response
  }
  const isEventStream = headers.get('content-type')?.startsWith('text/event-stream') === true
  const source = new BoundedBody(body, { ...bounds, isEventStream: isEventStream && response.ok })
  const copy = new Response(new ReadableStream(source), { status, statusText, headers })
  // The SDK resolves redirects against it.
  Object.defineProperty(copy, 'url', { value: response.url })
  return copy
}

type Controller = ReadableStreamDefaultController<Uint8Array>

/** Of an event stream, so much is handed on at a time: the SDK goes through all events of a piece at once. */
const pieceBytes = 4_096

class BoundedBody {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>
  readonly #bounds: ResponseBounds & { isEventStream: boolean }
  readonly #gauge: MessageGauge
  readonly #cancelled = new AbortController()
  #unread: Uint8Array = new Uint8Array(0)
  readonly #numbers: NumberWatch | undefined

  constructor(body: ReadableStream<Uint8Array>, bounds: ResponseBounds & { isEventStream: boolean }) {
    this.#reader = body.getReader()
    this.#bounds = bounds
    this.#gauge = new MessageGauge({ maxBytes: bounds.maxMessageBytes, isEventStream: bounds.isEventStream })
    this.#numbers = bounds.isCall ? new NumberWatch() : undefined
  }

  async pull(controller: Controller): Promise<void> {
    if (this.#unread.length === 0) {
      let read: Awaited<ReturnType<ReadableStreamDefaultReader<Uint8Array>['read']>>
      try {
        read = await this.#reader.read()
      } catch (error) {
        return this.#end(controller, 'ended', () => controller.error(error))
      }
      if (read.done) return this.#end(controller, 'ended', () => controller.close())
      this.#unread = read.value
    }
    const piece = this.#bounds.isEventStream ? this.#unread.subarray(0, pieceBytes) : this.#unread
    this.#unread = this.#unread.subarray(piece.length)
    const before = this.#gauge.messages
    this.#numbers?.add(piece)
    const refusal = this.#gauge.add(piece) ?? (this.#numbers?.hasUnsafe === true ? 'rounded' : undefined)
    if (refusal === undefined) {
      const waitMs = this.#bounds.pace.spend(this.#gauge.messages - before)
      const { signal } = this.#cancelled
      if (waitMs > 0) await sleep(waitMs, undefined, { signal, ref: false }).catch(() => {})
      return signal.aborted ? undefined : controller.enqueue(piece)
    }
    void this.#reader.cancel().catch(() => {})
    this.#end(controller, refusal, () => controller.error(new RefusedBodyError(refusal)))
  }

  async cancel(reason: unknown): Promise<void> {
    this.#cancelled.abort()
    this.#bounds.onEnd()
    await this.#reader.cancel(reason)
  }

  /** An answer that had come before makes the one put in here an answer to nobody. A stream with ids is taken up again by the SDK. */
  #end(controller: Controller, refusal: Refusal, otherwise: () => void): void {
    const { answers, isEventStream, onEnd } = this.#bounds
    onEnd()
    if (!isEventStream || answers === undefined || (refusal === 'ended' && this.#gauge.hasEventId)) return otherwise()
    // After what may be half an event, which will not parse.
    const event = `\n\ndata: ${JSON.stringify(refusedMessage(answers, refusal))}\n\n`
    controller.enqueue(new TextEncoder().encode(event))
    controller.close()
  }
}
