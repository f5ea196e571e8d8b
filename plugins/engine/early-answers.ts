import type { Socket } from 'node:net'
import type { FastifyRequest } from 'fastify'

/** Sockets with an answer to a request whose body was not there yet. */
const answered = new WeakSet<Socket>()

/**
 * Notes a request that is answered before its body has come to its end, as one without a token is. What follows of the body may turn out to
 * be unreadable: then the connection ends without another answer, which would be taken for that of the next request (reliability.md S18).
 */
export function noteEarlyAnswer({ raw }: FastifyRequest): void {
  if (raw.complete) return
  const { 'content-length': length = '0', 'transfer-encoding': coding } = raw.headers
  if (length !== '0' || coding !== undefined) answered.add(raw.socket)
}

export const wasAnsweredEarly = (socket: Socket): boolean => answered.has(socket)
