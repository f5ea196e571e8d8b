import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { pollEnd } from './poll-end.ts'
import { reachSession } from './reach.ts'
import { CallId, CallReport } from './schemas/calls.ts'
import { errorResponses } from './schemas/error-responses.ts'
import { SessionId } from './schemas/ids.ts'
import type { TypeBoxProvider } from './schemas/type-provider.ts'

const callParams = Type.Object({ session: SessionId, callId: CallId })

/** Longest long poll, in milliseconds. */
const maxWaitMs = 60_000

/** Asking for a call, and cancelling it (api.md §2). */
export async function callRoutes(fastify: FastifyInstance): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()

  app.get(
    '/calls/:session/:callId',
    {
      config: { action: 'events:read' },
      schema: {
        summary: 'Where a call stands, and its result once it is done',
        params: callParams,
        querystring: Type.Object(
          {
            waitMs: Type.Optional(
              Type.Integer({
                minimum: 0,
                maximum: maxWaitMs,
                description: 'Waits so long for the call to be done; its state is the answer if it is not.'
              })
            )
          },
          { additionalProperties: false }
        ),
        response: { 200: CallReport, ...errorResponses('UNKNOWN_SESSION', 'UNKNOWN_CALL') }
      }
    },
    async ({ principal, params, query }, reply) => {
      const session = await reachSession(app, principal, params.session)
      const { waitMs = 0 } = query
      if (waitMs === 0) return app.invocations.report(session, params.callId)
      const { signal, end } = pollEnd(app, reply, waitMs)
      try {
        return await app.invocations.report(session, params.callId, signal)
      } finally {
        end()
      }
    }
  )

  app.post(
    '/calls/:session/:callId/cancel',
    {
      config: { action: 'calls:cancel' },
      schema: {
        summary: 'Abort a call',
        description: 'Cooperative: the call ends as its body lets it. Answers with its state; again does nothing more.',
        params: callParams,
        response: { 200: CallReport, ...errorResponses('UNKNOWN_SESSION', 'UNKNOWN_CALL') }
      }
    },
    async ({ principal, params }) => {
      const session = await reachSession(app, principal, params.session)
      return app.invocations.cancel(session, params.callId)
    }
  )
}
