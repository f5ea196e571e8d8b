import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Caller } from '../server/invocations/live-call.ts'

/** The caller of a request: gone when its connection ends before the whole answer is sent (api.md §2). */
export function callerOf({ raw }: FastifyReply, abortsWhenLeft: boolean): Caller {
  return {
    abortsWhenLeft,
    onLeft: (listener) =>
      void raw.once('close', () => {
        if (!raw.writableFinished) listener()
      })
  }
}

/** A `Prefer` header is a list of preferences, each perhaps with parameters (RFC 7240). */
export const prefersAsync = ({ headers }: FastifyRequest): boolean =>
  [headers.prefer ?? []].flat().some((value) => /(^|,)\s*respond-async\s*(,|;|$)/i.test(value))

/** Whether the client takes lines of JSON, which it has to ask for by name. */
export const acceptsLines = ({ headers }: FastifyRequest): boolean =>
  /(^|,)\s*application\/x-ndjson\s*(,|;|$)/i.test(headers.accept ?? '')
