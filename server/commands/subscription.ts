import { setTimeout as wait } from 'node:timers/promises'
import { type ErrorCode, errorTable } from '../errors.ts'
import { type Client, RefusedError, UnreachableError } from './client.ts'

/** An event as the server sends it; a live one has neither `seq` nor `position`. */
export interface SeenEvent {
  readonly type: string
  readonly session?: string
  readonly seq?: number
  readonly position?: number
  readonly time?: number
  readonly data?: unknown
  readonly [member: string]: unknown
}

export interface SubscriptionRequest {
  readonly session?: string | undefined
  readonly scope?: string | undefined
  readonly events?: readonly string[] | undefined
  readonly after?: number | undefined
  readonly logId?: string | undefined
}

export interface SubscriptionListener {
  onEvent(event: SeenEvent): void
  onSubscribed?(place: { head: number; logId: string }): void
  /** Something that the subscription outlives: live events that were dropped, a session that is damaged. */
  onNote?(text: string): void
}

interface Frame {
  readonly type: string
  readonly code?: string
  readonly message?: string
  readonly head: number
  readonly logId: string
  readonly dropped?: number
  readonly session?: string
  readonly event: SeenEvent
}

/**
 * One subscription on a socket of its own (api.md §5). Resolves once it is there; `ended` resolves when the connection is lost and
 * rejects with a `RefusedError` when there is no going on. Rejects with a `RefusedError` or `UnreachableError`.
 */
export async function subscribe(
  client: Client,
  request: SubscriptionRequest,
  listener: SubscriptionListener
): Promise<{ ended: Promise<void>; close: () => void }> {
  const socket = client.openSocket()
  const ended = withResolvers<void>()
  const started = withResolvers<void>()
  // Who does not look at one of them must not be ended by it.
  ended.promise.catch(() => undefined)
  const refuse = (code: string, message: string): void => {
    const status = Object.hasOwn(errorTable, code) ? errorTable[code as ErrorCode].status : 500
    const error = new RefusedError(code, message, status)
    started.reject(error)
    ended.reject(error)
    socket.close()
  }
  socket.addEventListener('open', () => socket.send(JSON.stringify({ type: 'subscribe', id: 'cli', ...request })))
  socket.addEventListener('message', ({ data }: { data: unknown }) => {
    const frame = parseFrame(data)
    if (frame === undefined) refuse('INTERNAL', `what answers at ${client.url} is no Toolwright server`)
    else if (frame.type === 'event') listener.onEvent(frame.event)
    else if (frame.type === 'gap') listener.onNote?.(`${frame.dropped} live events were dropped`)
    else if (frame.type === 'subscribed') {
      listener.onSubscribed?.(frame)
      started.resolve()
    } else if (frame.code === 'LOG_CORRUPT') listener.onNote?.(`session ${frame.session} is damaged in the log`)
    else if (frame.type === 'error') refuse(String(frame.code), frame.message ?? messageOf(String(frame.code)))
  })
  // The close that follows tells the same.
  socket.addEventListener('error', () => undefined)
  socket.addEventListener('close', ({ code, reason }: { code: number; reason: string }) => {
    if (code === 4403) refuse('UNAUTHENTICATED', reason)
    started.reject(new UnreachableError(`the connection to ${client.url} was closed (${code})`))
    ended.resolve()
  })
  try {
    await started.promise
  } catch (error) {
    // A refused upgrade shows as a lost connection; a plain request is told why.
    if (error instanceof UnreachableError) await client.ask('/sessions?limit=1')
    throw error
  }
  return { ended: ended.promise, close: () => socket.close() }
}

/**
 * Follows the events over lost connections and restarts of the server, each stored one once and in order: it comes again with the seq, or
 * the position, of the last one seen. Never resolves; rejects when the first connection fails or the server refuses for good.
 */
export async function follow(
  client: Client,
  request: SubscriptionRequest,
  listener: SubscriptionListener
): Promise<never> {
  let { after, logId } = request
  let hasBeenThere = false
  let failures = 0
  const onEvent = (event: SeenEvent): void => {
    const at = request.session === undefined ? event.position : event.seq
    if (at !== undefined) {
      if (after !== undefined && at <= after) return
      after = at
    }
    listener.onEvent(event)
  }
  const onSubscribed = (place: { head: number; logId: string }): void => {
    // What comes after the head is live now, and would be missed after a lost connection.
    after ??= place.head
    logId = place.logId
    failures = 0
  }
  for (;;) {
    try {
      const { ended } = await subscribe(client, { ...request, after, logId }, { ...listener, onEvent, onSubscribed })
      hasBeenThere = true
      await ended
    } catch (error) {
      const isPassing =
        error instanceof UnreachableError || (error instanceof RefusedError && [429, 503].includes(error.status))
      if (!hasBeenThere || !isPassing) throw error
    }
    if (failures === 0) listener.onNote?.('the connection was lost; trying again')
    await wait(Math.min(5_000, 250 * 2 ** failures))
    failures += 1
  }
}

function parseFrame(data: unknown): Frame | undefined {
  try {
    return (JSON.parse(String(data)) ?? undefined) as Frame | undefined
  } catch {
    return undefined
  }
}

const messageOf = (code: string): string =>
  Object.hasOwn(errorTable, code) ? errorTable[code as ErrorCode].message : 'the server refused'

function withResolvers<T>() {
  let resolve!: (value: T) => void
  let reject!: (error: Error) => void
  const promise = new Promise<T>((onResolve, onReject) => {
    resolve = onResolve
    reject = onReject
  })
  return { promise, resolve, reject }
}
