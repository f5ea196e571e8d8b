import { randomBytes } from 'node:crypto'
import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { type FastifyHttpOptions, type FastifyReply, type FastifyRequest, LogController } from 'fastify'
import type { Logger } from 'pino'
import type { Config } from '../../server/config/schema.ts'
import { wasAnsweredEarly } from './early-answers.ts'
import { errorBody, toWireError } from './errors.ts'
import { answerLate } from './late-requests.ts'
import { isUpgrade } from '../../server/auth/upgrade.ts'

/**
 * What the Fastify instance itself must be made with: the limits of reliability.md §7 and the answers that come before any
 * hook. Fastify's own defaults have no time limits and echo what they did not understand.
 */
export function serverOptions({ http, drain }: Config, logger: Logger): FastifyHttpOptions<Server> {
  return {
    loggerInstance: logger,
    // Two lines for each request are for looking into something, not for every day.
    logController: new LogController({ disableRequestLogging: !logger.isLevelEnabled('debug') }),
    bodyLimit: http.bodyLimitBytes,
    requestTimeout: http.requestTimeoutMs,
    keepAliveTimeout: http.keepAliveTimeoutMs,
    maxRequestsPerSocket: http.maxRequestsPerSocket,
    // Kept connections without a request are closed by the keep-alive time, the others by the request's.
    connectionTimeout: 0,
    // It also bounds the close: the drain is a part of that, and would be given up after Fastify's 10 s, with an exit code of 1.
    pluginTimeout: Math.min(drain.preStopMs + drain.drainMs + 2 * drain.killMs + 10_000, 2_147_483_647),
    trustProxy: http.trustProxy.length > 0 ? [...http.trustProxy] : false,
    http: {
      headersTimeout: http.headersTimeoutMs,
      connectionsCheckingInterval: http.connectionsCheckingIntervalMs
    },
    // A client's own request id would let it forge log lines of others.
    requestIdHeader: false,
    genReqId: nextRequestId(),
    // Requests during the shutdown are answered by our own hook, in the one shape of errors.
    return503OnClosing: false,
    // A `callId` has up to 256 characters, each of up to 12 when percent-encoded.
    routerOptions: { maxParamLength: 4_096 },
    frameworkErrors: (error: Error, request: FastifyRequest, reply: FastifyReply) => {
      const wire = toWireError(error)
      // No hook runs for these, so nobody else would close the socket of an upgrade.
      if (isUpgrade(request.raw)) reply.raw.once('finish', () => request.raw.socket.destroySoon())
      void reply
        .code(wire.status)
        .type('application/json')
        .send(JSON.stringify(errorBody(wire, request.id)))
    },
    clientErrorHandler: (error: Error & { code?: string }, socket) => {
      if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') answerLate(socket, () => answerUnreadable(error, socket))
      else answerUnreadable(error, socket)
    }
  }
}

/** Ids that no other run of the server gives: fresh random bytes for each would be 3 % of the time of a small call. */
function nextRequestId(): () => string {
  const run = randomBytes(6).toString('base64url')
  let count = 0
  return () => `req-${run}-${(count += 1)}`
}

/**
 * Answers bytes that are no HTTP request, and a request that did not arrive in time; there is no request to speak of yet. `more` is
 * header lines, each with its end.
 */
export function answerUnreadable(error: Error & { code?: string }, socket: Socket, more = ''): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  if (wasAnsweredEarly(socket)) return void socket.end()
  const [status, reason] =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? [431, 'Request Header Fields Too Large']
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? [408, 'Request Timeout']
        : [400, 'Bad Request']
  const body = JSON.stringify({ error: { code: 'BAD_REQUEST', message: `${reason}.` }, requestId: null })
  socket.end(
    `HTTP/1.1 ${status} ${reason}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n${more}Connection: close\r\n\r\n${body}`
  )
}
