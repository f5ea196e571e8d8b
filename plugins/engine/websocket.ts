import type { Socket } from 'node:net'
import websocketPlugin from '@fastify/websocket'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { answerUnreadable } from './server-options.ts'
import { isUpgrade } from '../../server/auth/upgrade.ts'
import type { Config } from '../../server/config/schema.ts'
import { RequestError } from '../../server/errors.ts'

/** The subprotocol of `GET /events`; a ticket that is offered beside it is never echoed (api.md §5). */
export const subprotocol = 'toolwright.v1'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The route takes WebSockets; set here. */
    takesSockets?: true
  }
}

/**
 * WebSockets with the limits of reliability.md §7, and without compression, whose bombs and memory are not worth it. Registered
 * after `shutdown`, so that sockets are closed (1001) when the drain is over, and before the routes.
 */
export const websocket = fp(
  async (fastify: FastifyInstance, { ws, drain }: { ws: Config['ws']; drain: Config['drain'] }) => {
    // A variable, as the types of `ws` do not know all of its options yet.
    const options = {
      maxPayload: ws.maxFrameBytes,
      maxFragments: ws.maxFragments,
      perMessageDeflate: false,
      closeTimeout: drain.killMs,
      handleProtocols: (protocols: Set<string>) => (protocols.has(subprotocol) ? subprotocol : false)
    }
    await fastify.register(websocketPlugin, {
      options,
      errorHandler: (error, socket, request) => {
        // A client that sent what is no WebSocket message is being told so by a close code already; the rest is our fault.
        const isOurs = socket.readyState === socket.OPEN
        request.log[isOurs ? 'error' : 'debug']({ err: error }, 'a socket failed')
        if (isOurs) socket.close(1011)
      },
      preClose: (done) => {
        fastify.connections.close(() => true, 1001, 'shutting down')
        // A client that does not answer the close must not hold up the end.
        setTimeout(() => {
          for (const client of fastify.websocketServer.clients) client.terminate()
        }, drain.killMs).unref()
        fastify.websocketServer.close()
        done()
      }
    })

    // What is no proper handshake is refused by the library, whose own answer would be HTML. RFC 6455 §4.2.2 asks for the version.
    fastify.websocketServer.on('wsClientError', (error, socket) =>
      answerUnreadable(error, socket as Socket, 'Sec-WebSocket-Version: 13\r\n')
    )

    fastify.addHook('onRoute', (route) => {
      if (route.websocket || route.wsHandler) route.config = { ...route.config, takesSockets: true }
    })

    // Node hands the socket of an upgrade over for good: once the answer is a refusal, nobody else would ever close it.
    fastify.addHook('onResponse', (request, _reply, done) => {
      if (isUpgrade(request.raw) && !request.ws) request.raw.socket.destroySoon()
      done()
    })

    // Other routes would answer 101 and close at once; a client should see its mistake instead.
    fastify.addHook('onRequest', (request, _reply, done) => {
      if (!request.ws || request.is404) return done()
      if (!request.routeOptions.config.takesSockets)
        throw new RequestError('BAD_REQUEST', 'There is no WebSocket here.')
      const offered = request.headers['sec-websocket-protocol']
      if (offered !== undefined && !offered.split(',').some((name) => name.trim() === subprotocol)) {
        throw new RequestError('BAD_REQUEST', `The subprotocol here is ${subprotocol}.`)
      }
      done()
    })
  },
  { name: 'websocket', fastify: '5.x', dependencies: ['shutdown', 'connections'] }
)
