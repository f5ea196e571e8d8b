import { Type } from '@sinclair/typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { RequestError } from '../server/errors.ts'
import { withBodyText } from '../server/mcp/endpoint/call-params.ts'
import type { McpSession } from '../server/mcp/endpoint/mcp-session.ts'
import { reachScope } from './reach.ts'
import { errorResponses } from './schemas/error-responses.ts'
import { ScopeId } from './schemas/ids.ts'
import type { TypeBoxProvider } from './schemas/type-provider.ts'

const params = Type.Object({ scope: ScopeId })
const headers = Type.Object({
  'mcp-session-id': Type.Optional(
    Type.String({ description: 'From the answer to `initialize`; on all requests but that.' })
  ),
  'mcp-protocol-version': Type.Optional(Type.String()),
  'last-event-id': Type.Optional(
    Type.String({ description: 'Where a stream broke off: what came after it is sent again.' })
  )
})
const description =
  'Streamable HTTP of the Model Context Protocol. Refusals of the protocol itself are JSON-RPC errors, with a status of 4xx.'
/** What the transport itself refuses. */
const ProtocolRefusal = Type.Object(
  {
    jsonrpc: Type.Literal('2.0'),
    error: Type.Object({ code: Type.Integer(), message: Type.String() }),
    id: Type.Null()
  },
  { description: 'A refusal of the protocol: a JSON-RPC error.' }
)
/** What the transport looks at of a request. */
const readHeaders = ['accept', 'content-type', 'mcp-session-id', 'mcp-protocol-version', 'last-event-id'] as const

/** The MCP endpoint of each scope (api.md §6). */
export async function mcpRoutes(fastify: FastifyInstance): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()
  const config = { action: 'calls:invoke' } as const

  app.post(
    '/scopes/:scope/mcp',
    {
      config: { ...config, dataPaths: ['params.arguments'], keepsBodyText: true },
      schema: {
        summary: 'Send one MCP message',
        description,
        produces: ['text/event-stream'],
        params,
        headers,
        body: Type.Unknown({ description: 'One JSON-RPC message.' }),
        response: {
          200: Type.String({ description: 'The response, and what belongs to it, as Server-Sent Events.' }),
          202: Type.Null({ description: 'A notification was taken.' }),
          406: ProtocolRefusal,
          ...errorResponses('UNKNOWN_SCOPE', 'UNKNOWN_SESSION', 'RATE_LIMITED', 'OVERLOADED', 'SHUTTING_DOWN')
        }
      }
    },
    async (request, reply) => {
      const { body, principal } = request
      if (Array.isArray(body)) throw new RequestError('BAD_REQUEST', 'The body is one JSON-RPC message, not a batch.')
      const scope = reachScope(app, principal, request.params.scope)
      app.registrations.used(scope)
      if (request.headers['mcp-session-id'] !== undefined) return send(request, reply, sessionOf(request))
      // Only what begins a session needs the protocol's schemas here: to import them anew would cost each call of a tool.
      const { isInitializeRequest, isJSONRPCRequest } = await import('@modelcontextprotocol/sdk/types.js')
      if (!isJSONRPCRequest(body) || !isInitializeRequest(body)) return send(request, reply, sessionOf(request))
      if (app.shutdown.isDraining) throw new RequestError('SHUTTING_DOWN')
      const session = await app.mcpSessions.open(scope, principal)
      try {
        await send(request, reply, session)
      } finally {
        if (!session.isOpen) await session.close()
      }
    }
  )

  app.route({
    method: 'GET',
    url: '/scopes/:scope/mcp',
    // A stream has no head of its own: the request for one would never end.
    exposeHeadRoute: false,
    config,
    schema: {
      summary: 'Listen to an MCP session',
      description,
      produces: ['text/event-stream'],
      params,
      headers,
      response: {
        200: Type.String(),
        204: Type.Null({ description: 'The stream of `Last-Event-ID` has ended, and nothing of it is left.' }),
        406: ProtocolRefusal,
        409: ProtocolRefusal,
        ...errorResponses('UNKNOWN_SCOPE', 'UNKNOWN_SESSION', 'RATE_LIMITED', 'OVERLOADED')
      }
    },
    handler: async (request, reply) => {
      const session = sessionOf(request)
      const lastEventId = request.headers['last-event-id']
      if (lastEventId !== undefined && !session.recent.has(lastEventId)) {
        throw new RequestError('BAD_REQUEST', 'What came after this Last-Event-ID is not kept.')
      }
      const rest = session.recent.restOfEnded(lastEventId ?? '')
      if (rest !== undefined) return sendRest(reply, rest)
      app.connections.assertRoom(request.principal)
      const leave = app.connections.add(request.principal, () => void session.close())
      reply.raw.once('close', leave)
      return send(request, reply, session)
    }
  })

  app.delete(
    '/scopes/:scope/mcp',
    {
      config,
      schema: {
        summary: 'End an MCP session',
        description,
        params,
        headers,
        response: { 200: Type.Null(), ...errorResponses('UNKNOWN_SCOPE', 'UNKNOWN_SESSION') }
      }
    },
    async (request, reply) => send(request, reply, sessionOf(request))
  )

  function sessionOf(request: FastifyRequest): McpSession {
    const { principal, headers, params } = request
    const scope = reachScope(app, principal, (params as { scope: string }).scope)
    app.registrations.used(scope)
    const id = headers['mcp-session-id']
    if (typeof id !== 'string') {
      throw new RequestError('BAD_REQUEST', 'The header Mcp-Session-Id is missing; a session begins with initialize.')
    }
    return app.mcpSessions.find(id, scope, principal)
  }
}

/** Hands a request to the session's transport, and its answer to the client. */
async function send(request: FastifyRequest, reply: FastifyReply, session: McpSession): Promise<void> {
  const { method, headers, body, bodyText = '' } = request
  const answer = await session.transport.handleRequest(
    // The transport reads nothing of the address.
    new Request('http://toolwright.invalid/', { method, headers: headersOf(headers) }),
    { parsedBody: body, authInfo: withBodyText(bodyText) }
  )
  // Whether the connection stays is the server's to say.
  const { connection: _connection, ...head } = Object.fromEntries(answer.headers)
  if (answer.body === null || !head['content-type']?.startsWith('text/event-stream')) {
    await reply
      .code(answer.status)
      .headers(head)
      .serializer(String)
      .send(await answer.text())
    return
  }
  reply.hijack()
  reply.raw.writeHead(answer.status, {
    ...head,
    'x-request-id': request.id,
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-store, no-transform'
  })
  await session.streams.send(answer.body, reply.raw)
}

function headersOf(given: FastifyRequest['headers']): Headers {
  const headers = new Headers()
  for (const name of readHeaders) {
    const value = given[name]
    if (typeof value === 'string') headers.set(name, value)
  }
  return headers
}

/** What is left of a stream that has ended: nothing more will come, so neither does the connection stay. */
async function sendRest(reply: FastifyReply, rest: [id: string, message: unknown][]): Promise<void> {
  if (rest.length === 0) void reply.code(204)
  const text = rest.map(([id, message]) => `event: message\nid: ${id}\ndata: ${JSON.stringify(message)}\n\n`).join('')
  await reply.type('text/event-stream').serializer(String).send(text)
}
