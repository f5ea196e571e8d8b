import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { CallRequest } from '../server/invocations/plan.ts'
import { unsafeNumberPaths } from '../server/json/parse-body.ts'
import { reachScope } from './reach.ts'
import { CallAnswer, InvokeBody } from './schemas/calls.ts'
import { errorResponses } from './schemas/error-responses.ts'
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
        description:
          'Answers 200 for a success and for a failure of the tool. A `callId` makes the call idempotent within its session.',
        body: InvokeBody,
        response: {
          200: CallAnswer,
          ...errorResponses(
            'UNKNOWN_SCOPE',
            'UNKNOWN_SESSION',
            'CALL_CONFLICT',
            'STEP_CLOSED',
            'TURN_CLOSED',
            'TURN_BUSY'
          )
        }
      }
    },
    async (request) => {
      const { scope: scopeId, session: sessionId, turn, step, onDisconnect, ...call } = request.body
      const scope = reachScope(app, request.principal, scopeId)
      const session = await app.sessions.open(scope, sessionId)
      const named = withKey(request, call as CallRequest)
      const goesOn = onDisconnect === undefined ? named.callId !== undefined : onDisconnect === 'continue'
      return app.invocations.invoke({
        ...named,
        session,
        ...(turn === undefined ? {} : { turn }),
        ...(step === undefined ? {} : { step }),
        caller: { left: leftSignal(request), abortsWhenLeft: !goesOn }
      })
    }
  )
}

/** An `Idempotency-Key` is the `callId` of a caller that sends none (api.md §2). */
function withKey(request: FastifyRequest, call: CallRequest): CallRequest {
  const key = request.headers['idempotency-key']
  const text = request.bodyText ?? ''
  const named = call.callId !== undefined || typeof key !== 'string' ? call : { ...call, callId: key }
  return { ...named, text: { body: text, path: ['arguments'], unsafe: unsafeNumberPaths(text, 1) } }
}

/** Fires when the caller's connection ends before its answer was sent. */
function leftSignal(request: FastifyRequest): AbortSignal {
  const controller = new AbortController()
  request.raw.socket.once('close', () => controller.abort())
  return controller.signal
}
