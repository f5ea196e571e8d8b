import { MessageGauge } from './message-gauge.ts'
import { type Refusal, refusedMessage } from './refused-message.ts'

export interface ResponseBounds {
  readonly maxMessageBytes: number
  /** The request that the response answers; absent for the stream of notices. */
  readonly answers: number | undefined
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

class BoundedBody {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>
  readonly #bounds: ResponseBounds & { isEventStream: boolean }
  readonly #gauge: MessageGauge

  constructor(body: ReadableStream<Uint8Array>, bounds: ResponseBounds & { isEventStream: boolean }) {
    this.#reader = body.getReader()
    this.#bounds = bounds
    this.#gauge = new MessageGauge({ maxBytes: bounds.maxMessageBytes, isEventStream: bounds.isEventStream })
  }

  async pull(controller: Controller): Promise<void> {
    let piece: Awaited<ReturnType<ReadableStreamDefaultReader<Uint8Array>['read']>>
    try {
      piece = await this.#reader.read()
    } catch (error) {
      return this.#end(controller, 'ended', () => controller.error(error))
    }
    if (piece.done) return this.#end(controller, 'ended', () => controller.close())
    const refusal = this.#gauge.add(piece.value)
    if (refusal === undefined) return controller.enqueue(piece.value)
    void this.#reader.cancel().catch(() => {})
    this.#end(controller, refusal, () => controller.error(new RefusedBodyError(refusal)))
  }

  async cancel(reason: unknown): Promise<void> {
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
