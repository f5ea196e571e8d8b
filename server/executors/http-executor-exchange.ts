import type { IncomingHttpHeaders } from 'node:http'
import type { Dispatcher } from 'undici'
import { HttpToolError, requestError } from './http-executor-errors.ts'

/** One request of a tool, as it goes on the wire. */
export interface ToolRequest {
  /** `https://tools.example`: no path, no credentials. */
  readonly origin: string
  /** Begins with a slash; the query included. Sent as it is. */
  readonly path: string
  readonly method: Dispatcher.HttpMethod
  readonly headers: Readonly<Record<string, string>>
  readonly body?: Buffer
}

/** A whole answer, within the limit and without content coding. */
export interface ToolAnswer {
  readonly statusCode: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

/**
 * Makes one request and reads its answer to the end. `onSent` is called when there is a connection that it is about to be written to
 * (undici's `onRequestStart`): until then it did nothing, whatever becomes of it. An answer beyond `maxBytes` ends the
 * connection, so a server cannot keep it busy. Redirects are answers like others. Rejects with a `HttpToolError`,
 * or with the reason of `signal`.
 */
export function exchange(
  dispatcher: Dispatcher,
  { origin, path, method, headers, body }: ToolRequest,
  { maxBytes, signal, onSent }: { maxBytes: number; signal: AbortSignal; onSent: () => void }
): Promise<ToolAnswer> {
  return new Promise((resolve, reject) => {
    let controller: Dispatcher.DispatchController | undefined
    let head: Pick<ToolAnswer, 'statusCode' | 'headers'> | undefined
    let isOver = false
    let size = 0
    const pieces: Buffer[] = []

    const over = (settle: () => void): void => {
      if (isOver) return
      isOver = true
      signal.removeEventListener('abort', onAbort)
      settle()
    }
    const fail = (error: unknown): void => over(() => reject(requestError(error, controller !== undefined)))
    /** Ends the connection as well: what is left of the answer is not wanted. */
    const refuse = (error: HttpToolError): void => {
      fail(error)
      controller?.abort(error)
    }
    /** The status of a failure tells enough, whatever its body is. */
    const leave = (error: HttpToolError): void => {
      if (head === undefined || (head.statusCode >= 200 && head.statusCode < 300)) return refuse(error)
      const answer = { ...head, body: Buffer.alloc(0) }
      over(() => resolve(answer))
      controller?.abort(error)
    }
    const onAbort = (): void => {
      over(() => reject(signal.reason as Error))
      controller?.abort(signal.reason as Error)
    }

    if (signal.aborted) return onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    const handler: Dispatcher.DispatchHandler = {
      onRequestStart(started) {
        // Given up while it waited for a connection: nothing of it may be sent any more.
        if (isOver) return started.abort(new Error('given up'))
        controller = started
        onSent()
      },
      onResponseStart(_controller, statusCode, answered) {
        // The server has not begun with the answer proper.
        if (statusCode < 200) return
        head = { statusCode, headers: answered }
        const coding = answered['content-encoding']
        const declared = method === 'HEAD' ? 0 : Number(answered['content-length'])
        if (coding !== undefined && coding !== 'identity') {
          leave(badAnswer('it is compressed, which was not asked for'))
        } else if (declared > maxBytes) leave(tooLarge(maxBytes))
      },
      onResponseData(_controller, chunk) {
        if (isOver) return
        size += chunk.length
        if (size > maxBytes) leave(tooLarge(maxBytes))
        else pieces.push(chunk)
      },
      onResponseEnd() {
        if (head === undefined) return fail(badAnswer('it has no head'))
        const { statusCode, headers: answered } = head
        over(() => resolve({ statusCode, headers: answered, body: Buffer.concat(pieces) }))
      },
      onResponseError: (_controller, error) => fail(error)
    }
    try {
      dispatcher.dispatch({ origin, path, method, headers, ...(body !== undefined && { body }) }, handler)
    } catch (error) {
      fail(error)
    }
  })
}

/** The server did something, and what it said of it is not to be used. */
export const badAnswer = (reason: string): HttpToolError =>
  new HttpToolError('HTTP_TOOL_BAD_ANSWER', `the answer of the tool’s server cannot be used: ${reason}`, 'unknown')

const tooLarge = (maxBytes: number): HttpToolError =>
  new HttpToolError(
    'HTTP_TOOL_ANSWER_TOO_LARGE',
    `the answer of the tool’s server is larger than ${maxBytes} bytes`,
    'unknown'
  )
