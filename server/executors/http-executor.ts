import { RequestError } from '../errors.ts'
import type { JsonObject } from '../json/lossless.ts'
import { stringifyJson } from '../json/serialize.ts'
import type { Executor, WireAnswer, WireCall } from './executor.ts'
import { readToolAnswer } from './http-executor-answer.ts'
import type { HttpToolClient } from './http-executor-client.ts'
import type { ToolRequest } from './http-executor-exchange.ts'
import { signatureHeader, signatureOf } from './http-executor-signature.ts'

/** Headers of a call beyond those of the protocol, such as the trace that it is part of. */
export type CallHeaders = (call: WireCall) => Readonly<Record<string, string>>

const maxUrlCharacters = 2_048

/**
 * Runs a tool by `POST url` (api.md §3): the call as JSON, signed, with its deadline. The server answers `{ value, content? }`, or
 * `{ error: { message, code? } }`. It is cancelled by the end of its connection.
 */
export class HttpExecutor implements Executor {
  readonly kind = 'http'
  readonly #url: URL
  readonly #client: HttpToolClient
  readonly #secret: string
  readonly #headersOf: CallHeaders

  constructor(options: { url: URL; client: HttpToolClient; secret: string; headersOf?: CallHeaders }) {
    this.#url = options.url
    this.#client = options.client
    this.#secret = options.secret
    this.#headersOf = options.headersOf ?? (() => ({}))
  }

  describe(): JsonObject {
    // A query may hold a key.
    return { url: `${this.#url.origin}${this.#url.pathname}` }
  }

  async run(call: WireCall): Promise<WireAnswer> {
    const { callId, name, arguments: args, scope, session } = call
    const { origin, pathname, search } = this.#url
    const fields = { callId, name, arguments: args, scope, ...(session !== undefined && { session }) }
    const body = Buffer.from(stringifyJson(fields))
    const makeRequest = (deadlineAt: number): ToolRequest => ({
      origin,
      path: `${pathname}${search}`,
      method: 'POST',
      headers: {
        ...this.#headersOf(call),
        'content-type': 'application/json',
        accept: 'application/json',
        'accept-encoding': 'identity',
        'x-toolwright-deadline': String(Math.floor(deadlineAt)),
        // Signed anew for each try: the server may refuse what is old.
        [signatureHeader]: signatureOf(this.#secret, Date.now(), body)
      },
      body
    })
    return readToolAnswer(await this.#client.send(call, makeRequest))
  }
}

/** The URL of a tool's server. Throws `INVALID_DEFINITION` for what is no http or https URL, and for one with credentials or a fragment in it. */
export function toolUrl(given: unknown, member: string): URL {
  const refuse = (text: string): never => {
    throw new RequestError('INVALID_DEFINITION', `"${member}" ${text}.`)
  }
  if (typeof given !== 'string' || given.length > maxUrlCharacters || !URL.canParse(given)) {
    return refuse(`must be a URL of at most ${maxUrlCharacters} characters`)
  }
  const url = new URL(given)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return refuse('must be an http or https URL')
  if (url.username !== '' || url.password !== '') return refuse('may not have credentials in it')
  if (url.hash !== '') return refuse('may not have a fragment')
  return url
}
