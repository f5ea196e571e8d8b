import type { FastifyError, FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { CodedError, type ErrorCode, errorTable, RequestError } from '../../server/errors.ts'
import { StoreUnavailableError } from '../../server/event-log/event-log.ts'
import { JsonTextError } from '../../server/json/parse-text.js'
import { noteEarlyAnswer } from './early-answers.ts'
import { RouteMethods } from './route-methods.ts'
import { isUpgrade } from '../../server/auth/upgrade.ts'

/** The one shape of an error answer (api.md §8). */
export interface ErrorBody {
  error: { code: ErrorCode; message: string; details?: unknown }
  requestId: string
}

export const errorBody = ({ code, message, details }: RequestError, requestId: string): ErrorBody => ({
  error: { code, message, ...(details !== undefined && { details }) },
  requestId
})

/** Fastify's own errors, as ours. What is not here is a fault of the server if its status says so, else a BAD_REQUEST. */
const frameworkCodes: ReadonlyMap<string, ErrorCode> = new Map([
  ['FST_ERR_CTP_INVALID_MEDIA_TYPE', 'UNSUPPORTED_MEDIA_TYPE'],
  ['FST_ERR_CTP_BODY_TOO_LARGE', 'BODY_TOO_LARGE'],
  ['FST_ERR_NOT_FOUND', 'NOT_FOUND']
])

/**
 * Any error as one that may be shown. The message of an error that is not made for clients never is: it may hold a path, a
 * secret or the client's own bytes (reliability.md §1.10).
 */
export function toWireError(error: unknown): RequestError {
  if (error instanceof RequestError) return error
  if (error instanceof StoreUnavailableError) return new RequestError('STORE_UNAVAILABLE', undefined, { cause: error })
  if (error instanceof JsonTextError) return new RequestError('BAD_JSON', error.message, { cause: error })
  if (error instanceof CodedError && Object.hasOwn(errorTable, error.code)) {
    const code = error.code as ErrorCode
    return new RequestError(code, errorTable[code].status < 500 ? error.message : undefined, { cause: error })
  }
  const { code = '', statusCode = 500, validation, validationContext } = (error ?? {}) as Partial<FastifyError>
  if (validation) {
    const [first] = validation
    const path = `${validationContext}${(first?.instancePath ?? '').replaceAll('/', '.')}`
    return new RequestError('BAD_REQUEST', `${path} ${first?.message ?? 'is not valid'}`, {
      details: { path, params: first?.params }
    })
  }
  const known = frameworkCodes.get(code)
  if (known) return new RequestError(known)
  // Fastify gives a body that broke off a status, and nothing else that is called so has one.
  const isTheirs = (code.startsWith('FST_') || code === 'ECONNRESET') && statusCode >= 400 && statusCode < 500
  return new RequestError(isTheirs ? 'BAD_REQUEST' : 'INTERNAL', undefined, { cause: error })
}

/** Every error answer, also 404 and 405, in the one shape; what went wrong inside is logged and not told. */
export const errors = fp(
  async (fastify: FastifyInstance) => {
    const methods = new RouteMethods()
    fastify.addHook('onRoute', ({ url, method }) => methods.add(url, method))

    fastify.setErrorHandler((error, request, reply) => {
      const wire = toWireError(error)
      if (wire.code === 'INTERNAL') request.log.error({ err: error }, 'a request failed inside the server')
      else request.log.debug({ err: error }, 'a request was refused')
      // The status table of 429 and 503 promises it (api.md §8).
      if (wire.status === 429 || wire.status === 503) void reply.header('retry-after', '1')
      return reply
        .code(wire.status)
        .headers(wire.headers)
        .type('application/json; charset=utf-8')
        .send(errorBody(wire, request.id))
    })

    fastify.setNotFoundHandler((request) => {
      const allowed = methods.of(request.url)
      if (allowed.length === 0) throw new RequestError('NOT_FOUND')
      throw new RequestError('METHOD_NOT_ALLOWED', undefined, { headers: { allow: allowed.join(', ') } })
    })

    fastify.addHook('onSend', (request, reply, payload, done) => {
      void reply.header('x-request-id', request.id).header('x-content-type-options', 'nosniff')
      // Nothing more is read from a socket whose upgrade is refused.
      if (isUpgrade(request.raw)) void reply.header('connection', 'close')
      noteEarlyAnswer(request)
      if (!reply.hasHeader('cache-control')) void reply.header('cache-control', 'no-store')
      done(null, payload)
    })
  },
  { name: 'errors', fastify: '5.x' }
)
