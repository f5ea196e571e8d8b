import type { Socket } from 'node:net'
import type { FastifyRequest } from 'fastify'

/** Sockets with an answer to a request whose body was not there yet. */
const answered = new WeakSet<Socket>()

/**
 * Whether a request is being answered before its body has come to its end, as one without a token is. What follows of the body may then be
 * unreadable: the connection must end with this answer, for a second one would be taken for that of the next request (reliability.md S18).
 */
export function isAnsweredEarly({ raw }: FastifyRequest): boolean {
  const { 'content-length': length = '0', 'transfer-encoding': coding } = raw.headers
  if (raw.complete || (length === '0' && coding === undefined)) return false
  answered.add(raw.socket)
  return true
}

export const wasAnsweredEarly = (socket: Socket): boolean => answered.has(socket)
