import { Type } from '@sinclair/typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { EventStream } from '../plugins/engine/event-stream.ts'
import { FrameSocket } from '../plugins/engine/frame-socket.ts'
import type { FrameConnection } from '../plugins/engine/frames.ts'
import { mayDo, type Principal } from '../server/auth/principal.ts'
import { RequestError } from '../server/errors.ts'
import { eventStreamFrames, webSocketFrames } from '../server/events/frames.ts'
import type { Subscription, SubscriptionRequest } from '../server/events/subscription.ts'
import { reachScope, reachSession } from './reach.ts'
import { errorResponses } from './schemas/error-responses.ts'
import { EventPattern, streamFields, Subscribe, Unsubscribe } from './schemas/frames.ts'
import type { TypeBoxProvider } from './schemas/type-provider.ts'

const streamQuery = Type.Object(
  { ...streamFields, type: Type.Optional({ ...EventPattern, description: 'Only events of this type.' }) },
  { additionalProperties: false }
)

/** `GET /events`: the stream of what happens, as a WebSocket or as Server-Sent Events (api.md §5). */
export async function eventRoutes(fastify: FastifyInstance): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()
  const { limits } = app.connections
  app.frames.add({
    types: {
      subscribe: { schema: Subscribe, action: 'events:read' },
      unsubscribe: { schema: Unsubscribe, action: 'events:read' }
    },
    open: (connection) => subscriptionFrames(app, connection, limits.maxSubscriptions)
  })

  app.route({
    method: 'GET',
    url: '/events',
    // A stream has no head of its own: the request for one would never end.
    exposeHeadRoute: false,
    config: { action: 'catalogue:read' },
    schema: {
      summary: 'The stream of events',
      description:
        'As Server-Sent Events, or upgraded to a WebSocket with the subprotocol `toolwright.v1`. `Last-Event-ID` stands for `after`.',
      produces: ['text/event-stream'],
      querystring: streamQuery,
      response: {
        200: Type.String(),
        ...errorResponses(
          'UNKNOWN_SCOPE',
          'UNKNOWN_SESSION',
          'NOT_ACCEPTABLE',
          'LOG_RESET',
          'CURSOR_EXPIRED',
          'RATE_LIMITED',
          'OVERLOADED'
        )
      }
    },
    preHandler: async ({ principal }) => app.connections.assertRoom(principal),
    handler: async (request, reply) => {
      if (!acceptsStream(request)) throw new RequestError('NOT_ACCEPTABLE')
      if (!mayDo(request.principal, 'events:read')) throw new RequestError('FORBIDDEN')
      await sendStream(app, request, reply)
    },
    wsHandler: (socket, { principal, log, raw }) => {
      const connection = new FrameSocket(socket, raw.socket, { principal, log, limits })
      const leave = app.connections.add(principal, (code, reason) => connection.close(code, reason))
      connection.closed.addEventListener('abort', leave, { once: true })
      connection.receive(app.frames.open(connection))
    }
  })
}

function subscriptionFrames(app: FastifyInstance, connection: FrameConnection, maxSubscriptions: number) {
  // A subscription that is on its way is undefined: what ends it meanwhile takes it out of the map.
  const open = new Map<string, { ends: boolean; subscription?: Subscription }>()
  const end = (id: string): boolean => {
    const entry = open.get(id)
    if (entry === undefined) return false
    entry.ends = true
    entry.subscription?.close()
    return open.delete(id)
  }
  connection.closed.addEventListener('abort', () => [...open.keys()].forEach(end), { once: true })
  return {
    /** One under an id that is in use takes its place. */
    subscribe: async ({ id, type: _type, ...wanted }: { id: string; type: 'subscribe' } & StreamRequest) => {
      end(id)
      if (open.size >= maxSubscriptions) {
        throw new RequestError('RATE_LIMITED', `A socket has at most ${maxSubscriptions} subscriptions.`)
      }
      const entry: { ends: boolean; subscription?: Subscription } = { ends: false }
      open.set(id, entry)
      const sink = {
        sendText: (text: string) => {
          if (!entry.ends) connection.sendText(text)
        },
        get isBackedUp() {
          return connection.isBackedUp
        },
        whenWritable: () => connection.whenWritable()
      }
      try {
        const request = await toSubscription(app, connection.principal, wanted)
        entry.subscription = await app.fanOut.subscribe(request, sink, webSocketFrames(id))
        if (entry.ends) entry.subscription.close()
      } catch (error) {
        if (open.get(id) === entry) open.delete(id)
        if (entry.ends) return
        if (!(error instanceof RequestError) || typeof error.details !== 'object') throw error
        connection.send({ type: 'error', id, code: error.code, message: error.message, ...error.details })
      }
    },
    unsubscribe: ({ id }: { id: string }) => {
      if (!end(id)) throw new RequestError('NOT_FOUND', 'There is no subscription of this id.')
    }
  }
}

interface StreamRequest {
  session?: string
  scope?: string
  events?: string[]
  after?: number
  logId?: string
}

/** What a principal asks for, cut down to what it may see. Throws UNKNOWN_SCOPE or UNKNOWN_SESSION. */
async function toSubscription(
  app: FastifyInstance,
  principal: Principal,
  { scope: scopeId, session, ...rest }: StreamRequest
): Promise<SubscriptionRequest> {
  const scope = reachScope(app, principal, scopeId)
  // Who sees everything may wait for a session that is yet to come; for others it would tell which ids exist.
  if (session !== undefined && principal.scope !== 'global') await reachSession(app, principal, session)
  const isEverything = scope === app.scopes.global
  return {
    ...rest,
    ...(session !== undefined && { session }),
    ...(!isEverything && {
      scopes: {
        has: (id) => app.scopes.get(id)?.isWithin(scope) === true,
        ids: () => app.scopes.subtree(scope).map((seen) => seen.id)
      }
    })
  }
}

function acceptsStream({ headers: { accept } }: FastifyRequest): boolean {
  if (accept === undefined) return true
  const ranges = accept.split(',').map((range) => range.split(';')[0]?.trim().toLowerCase())
  return ranges.some((range) => range === 'text/event-stream' || range === 'text/*' || range === '*/*')
}

async function sendStream(app: FastifyInstance, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const { principal, headers } = request
  const { type, ...query } = request.query as StreamRequest & { type?: string }
  const lastSeen = headers['last-event-id']
  if (lastSeen !== undefined && !/^(-1|\d{1,15})$/.test(String(lastSeen))) {
    throw new RequestError('BAD_REQUEST', 'The Last-Event-ID is none of ours.')
  }
  const wanted = {
    ...query,
    ...(lastSeen !== undefined && { after: Number(lastSeen) }),
    ...(type !== undefined && { events: [type] })
  }
  const stream = new EventStream(reply.raw, { limits: app.connections.limits, requestId: request.id })
  const leave = app.connections.add(principal, () => stream.end())
  let subscription: Subscription | undefined
  // Of the answer and not of its connection, which may be kept for other requests.
  reply.raw.once('close', () => {
    leave()
    subscription?.close()
  })
  try {
    subscription = await app.fanOut.subscribe(await toSubscription(app, principal, wanted), stream, eventStreamFrames)
  } catch (error) {
    leave()
    throw error
  }
  if (reply.raw.closed) subscription.close()
  reply.hijack()
}
