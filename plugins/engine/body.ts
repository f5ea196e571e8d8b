import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { RequestError } from '../../server/errors.ts'
import type { JsonValue } from '../../server/json/lossless.ts'
import { poisonKeyPath } from '../../server/json/parse-body.ts'
import { parseJson } from '../../server/json/parse-text.js'
import type { PathStep } from '../../server/json/path.ts'
import { stringifyJson } from '../../server/json/serialize.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * Where in the body keys such as `__proto__` are data and not refused (api.md §8), as `arguments` or `calls.*.arguments`,
     * `*` being any one step.
     */
    dataPaths?: readonly string[]
    /** Keeps the text of the body on the request, for a route that needs numbers or key order as they were sent. */
    keepsBodyText?: boolean
  }
  interface FastifyRequest {
    /** The body as it was sent, on routes that ask for it by `keepsBodyText`; else undefined. */
    bodyText: string | undefined
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** Bodies nest at most this deep; deeper is BAD_JSON (api.md §8). */
export const maxBodyDepth = 256

/** The only parser of bodies: `application/json`, UTF-8, no content encoding (reliability.md §1.1, §1.6, §1.7). */
export const body = fp(
  async (fastify: FastifyInstance) => {
    fastify.decorateRequest('bodyText', undefined)
    fastify.removeAllContentTypeParsers()

    fastify.addHook('preParsing', ({ headers, method }, _reply, payload, done) => {
      // Nothing reads the body of these.
      if (method !== 'GET' && method !== 'HEAD') {
        const charset = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(headers['content-type'] ?? '')?.[1]
        if (headers['content-encoding'] !== undefined || (charset !== undefined && charset.toLowerCase() !== 'utf-8')) {
          throw new RequestError('UNSUPPORTED_MEDIA_TYPE')
        }
      }
      done(null, payload)
    })

    fastify.addContentTypeParser(
      'application/json',
      { parseAs: 'buffer' },
      (request: FastifyRequest, bytes: Buffer, done) => {
        let value: JsonValue
        try {
          value = read(request, bytes)
        } catch (error) {
          return done(error as Error)
        }
        done(null, value)
      }
    )

    // Answers hold values of tools, which may nest deeper than JSON.stringify bears; and no schema may drop a field of one.
    fastify.setReplySerializer((payload) => stringifyJson(payload as JsonValue))
    fastify.setSerializerCompiler(() => (payload) => stringifyJson(payload as JsonValue))
  },
  { name: 'body', fastify: '5.x' }
)

function read(request: FastifyRequest, bytes: Buffer): JsonValue {
  const { dataPaths = [], keepsBodyText = false } = request.routeOptions.config
  if (bytes.length === 0) {
    if (needsNone(request)) return null
    throw new RequestError('BAD_JSON', 'The body is empty.')
  }
  const text = decode(bytes)
  const value = parseJson(text, { maxDepth: maxBodyDepth })
  refusePoisonKeys(value, dataPaths)
  if (keepsBodyText) request.bodyText = text
  return value
}

/** Many clients say of every request that it is JSON, of a DELETE too: then an empty body is none. */
function needsNone(request: FastifyRequest): boolean {
  const validate = request.getValidationFunction('body')
  return validate === undefined || validate(null)
}

/** Throws BAD_JSON naming the first key outside `dataPaths` that a careless merge would take for a prototype. */
export function refusePoisonKeys(value: JsonValue, dataPaths: readonly string[]): void {
  const patterns = dataPaths.map((path) => path.split('.'))
  const isData = (path: readonly PathStep[]): boolean =>
    patterns.some(
      (steps) => steps.length === path.length && steps.every((step, at) => step === '*' || step === path[at])
    )
  const poisoned = poisonKeyPath(value, isData)
  if (poisoned !== undefined) throw new RequestError('BAD_JSON', `The key ${poisoned} is not allowed here.`)
}

function decode(bytes: Buffer): string {
  try {
    return utf8.decode(bytes)
  } catch (error) {
    throw new RequestError('BAD_JSON', 'The body is not UTF-8.', { cause: error })
  }
}
