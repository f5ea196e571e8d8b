import type { Static } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { InvokeRequest } from '../server/invocations/invoke.ts'
import type { Caller } from '../server/invocations/live-call.ts'
import type { JsonValue } from '../server/json/lossless.ts'
import { sentArguments } from '../server/invocations/sent-arguments.ts'
import type { Session } from '../server/sessions/session.ts'
import type { InvokeBody } from './schemas/calls.ts'

/** A plain call as a body, or a frame, says it; `text` is what it was sent as: what the parsed values no longer tell. */
export function invokeRequest(session: Session, body: Static<typeof InvokeBody>, text: string): InvokeRequest {
  const { name, callId, arguments: args, rawArguments, turn, step } = body
  const request: InvokeRequest = { name, session, sent: sentArguments(text, ['arguments']) }
  if (callId !== undefined) request.callId = callId
  if (args !== undefined) request.arguments = args as JsonValue
  if (rawArguments !== undefined) request.rawArguments = rawArguments
  if (turn !== undefined) request.turn = turn
  if (step !== undefined) request.step = step
  return request
}

/** The caller of a request: gone when its connection ends before the whole answer is sent (api.md §2). */
export function callerOf({ raw }: FastifyReply, abortsWhenLeft: boolean): Caller {
  return {
    abortsWhenLeft,
    onLeft: (listener) => {
      const left = (): void => {
        if (!raw.writableFinished) listener()
      }
      // It may be gone before its session was there.
      if (raw.closed) left()
      else raw.once('close', left)
    }
  }
}

/** A `Prefer` header is a list of preferences, each perhaps with parameters (RFC 7240). */
export const prefersAsync = ({ headers }: FastifyRequest): boolean =>
  [headers.prefer ?? []].flat().some((value) => /(^|,)\s*respond-async\s*(,|;|$)/i.test(value))

/** Whether the client takes lines of JSON, which it has to ask for by name. */
export const acceptsLines = ({ headers }: FastifyRequest): boolean =>
  /(^|,)\s*application\/x-ndjson\s*(,|;|$)/i.test(headers.accept ?? '')
