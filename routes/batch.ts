import { PassThrough } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { errorBody, toWireError } from '../plugins/engine/errors.ts'
import { type BatchRequest, invokeBatch } from '../server/invocations/invoke-batch.ts'
import { sentBatchArguments } from '../server/invocations/sent-arguments.ts'
import type { JsonValue } from '../server/json/lossless.ts'
import { stringifyJson } from '../server/json/serialize.ts'
import { acceptsLines, callerOf } from './call-request.ts'
import { reachScope } from './reach.ts'
import { BatchAnswer, BatchBody } from './schemas/calls.ts'
import { errorResponses } from './schemas/error-responses.ts'
import { placedCallErrors } from './schemas/placed-call-errors.ts'
import type { TypeBoxProvider } from './schemas/type-provider.ts'

/** Running the calls of one model step (api.md §2). */
export async function batchRoutes(fastify: FastifyInstance): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()

  app.post(
    '/invoke/batch',
    {
      config: { action: 'calls:invoke', startsWork: true, dataPaths: ['calls.*.arguments'], keepsBodyText: true },
      schema: {
        summary: 'Run the calls of one model step',
        description: [
          'Calls that may overlap do, the others are barriers; results keep the order of the calls. With `Accept: application/x-ndjson`',
          'each result is a line of its own, sent as soon as it is committed; a failure after the first line is a last line of the shape',
          'of an error answer.'
        ].join(' '),
        produces: ['application/json', 'application/x-ndjson'],
        body: BatchBody,
        response: {
          200: BatchAnswer,
          ...errorResponses(...placedCallErrors)
        }
      }
    },
    async (request, reply) => {
      const { scope: scopeId, session: id, turn, step, onDisconnect, calls } = request.body
      const session = await app.sessions.open(reachScope(app, request.principal, scopeId), id)
      const sent = sentBatchArguments(request.bodyText ?? '')
      const batch: BatchRequest = {
        session,
        by: request.principal,
        trace: app.tracing.incoming(request.headers),
        calls: calls.map((call, index) => ({ ...call, sent: sent(index) })),
        callerOf: ({ callId }) => {
          const goesOn = onDisconnect === undefined ? callId !== undefined : onDisconnect === 'continue'
          return callerOf(reply, !goesOn)
        },
        ...(turn === undefined ? {} : { turn }),
        ...(step === undefined ? {} : { step })
      }
      // One listener for each call, of which there may be many.
      reply.raw.setMaxListeners(calls.length + 20)
      return acceptsLines(request) ? sendLines(app, request, reply, batch) : invokeBatch(app.invocations, batch)
    }
  )
}

/** Sends the answers line by line. What fails before the first one is answered as ever. */
function sendLines(
  app: FastifyInstance,
  request: FastifyRequest,
  reply: FastifyReply,
  batch: BatchRequest
): Promise<FastifyReply> {
  const lines = new PassThrough()
  return new Promise((resolve, reject) => {
    let hasBegun = false
    const write = (value: unknown): void => {
      lines.write(`${stringifyJson(value as JsonValue)}\n`)
      if (hasBegun) return
      hasBegun = true
      void reply.type('application/x-ndjson').send(lines)
      resolve(reply)
    }
    invokeBatch(app.invocations, { ...batch, onAnswer: write }).then(
      () => lines.end(),
      (error: unknown) => {
        if (!hasBegun) return reject(error)
        write(errorBody(toWireError(error), request.id))
        return void lines.end()
      }
    )
  })
}
