import { Type } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { FastifyInstance } from 'fastify'
import { RequestError } from '../server/errors.ts'
import { callPath } from '../server/invocations/live-call.ts'
import { callerOf, invokeRequest, prefersAsync } from './call-request.ts'
import { reachScope } from './reach.ts'
import { CallAnswer, CallReport, DryRunReport, InvokeBody } from './schemas/calls.ts'
import { errorResponses } from './schemas/error-responses.ts'
import { placedCallErrors } from './schemas/placed-call-errors.ts'
import type { TypeBoxProvider } from './schemas/type-provider.ts'

/** Running a tool (api.md §2). */
export async function invokeRoutes(fastify: FastifyInstance): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()

  app.post(
    '/invoke',
    {
      config: { action: 'calls:invoke', startsWork: true, dataPaths: ['arguments'], keepsBodyText: true },
      schema: {
        summary: 'Run one tool call',
        description: [
          'Answers 200 for a success and for a failure of the tool. A `callId`, or an `Idempotency-Key` header, makes the call',
          'idempotent within its session. With `Prefer: respond-async` it answers as soon as the call is stored.'
        ].join(' '),
        querystring: Type.Object(
          {
            dryRun: Type.Optional(
              Type.Boolean({ description: 'Reports what policy and validation say; nothing runs, is logged or asked.' })
            )
          },
          { additionalProperties: false }
        ),
        headers: Type.Object({
          'idempotency-key': Type.Optional(Type.String({ description: 'The `callId` of a body that has none.' })),
          prefer: Type.Optional(Type.String({ description: '`respond-async`: 202 and the `Location` of the call.' }))
        }),
        body: InvokeBody,
        response: {
          200: Type.Union([CallAnswer, DryRunReport]),
          202: CallReport,
          ...errorResponses(...placedCallErrors)
        }
      }
    },
    async (request, reply) => {
      const { scope: scopeId, session: id, onDisconnect } = request.body
      const key = keyOf(request)
      const scope = reachScope(app, request.principal, scopeId)
      const { dryRun } = request.query
      const session = dryRun === true ? await app.sessions.peek(scope, id) : await app.sessions.open(scope, id)
      const callId = request.body.callId ?? key
      const invoke = invokeRequest(session, request.body, request.bodyText ?? '')
      invoke.by = request.principal
      invoke.trace = app.tracing.incoming(request.headers)
      if (callId !== undefined) invoke.callId = callId
      if (dryRun === true) return app.invocations.dryRun(invoke, goneSignal(reply))
      if (prefersAsync(request)) {
        const live = await app.invocations.accept(invoke)
        const location = callPath(session.id, live.identity.callId)
        void reply.code(202).header('location', location).header('preference-applied', 'respond-async')
        return { callId: live.identity.callId, session: session.id, state: live.state }
      }
      const goesOn = onDisconnect === undefined ? callId !== undefined : onDisconnect === 'continue'
      invoke.caller = callerOf(reply, !goesOn)
      return await app.invocations.invoke(invoke)
    }
  )
}

/** Of two lines `headers` has one text, which would be a third key: neither the client nor a proxy that looked at one of them means that. */
function keyOf({ raw }: FastifyRequest): string | undefined {
  const [key, ...more] = raw.headersDistinct['idempotency-key'] ?? []
  if (more.length > 0) throw new RequestError('BAD_REQUEST', 'more than one Idempotency-Key')
  return key
}

/** Fires when the client is gone. */
function goneSignal({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController()
  raw.once('close', () => gone.abort())
  return gone.signal
}
