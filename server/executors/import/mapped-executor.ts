import type { JsonObject, JsonValue } from '../../json/lossless.ts'
import { parseJson } from '../../json/parse-text.js'
import { stringifyJson } from '../../json/serialize.ts'
import { strikeOut } from '../../json/strike-out.ts'
import type { Executor, WireAnswer, WireCall } from '../executor.ts'
import type { CallHeaders } from '../http-executor.ts'
import { isJson, readJson, readUtf8, statusError, typeName } from '../http-executor-answer.ts'
import type { HttpToolClient } from '../http-executor-client.ts'
import type { HttpCredentials, Proof } from '../http-executor-credentials.ts'
import { badAnswer, type ToolAnswer, type ToolRequest } from '../http-executor-exchange.ts'
import { mapRequest, type RequestMapping } from './request-mapping.ts'

/** Of what a server says of a failure. */
const maxToldCharacters = 2_000
const noProof: Proof = { headers: {}, query: [], secrets: [] }

/**
 * Runs one operation of an API that knows nothing of us (api.md §3): the arguments become a request as the mapping says, the answer is the
 * value, JSON or text. Credentials are added last, and their secret never comes back, also where the server repeats it.
 */
export class MappedExecutor implements Executor {
  readonly kind = 'http'
  readonly #mapping: RequestMapping
  readonly #client: HttpToolClient
  readonly #credentials: HttpCredentials
  readonly #headersOf: CallHeaders

  constructor(options: {
    mapping: RequestMapping
    client: HttpToolClient
    credentials: HttpCredentials
    headersOf?: CallHeaders
  }) {
    this.#mapping = options.mapping
    this.#client = options.client
    this.#credentials = options.credentials
    this.#headersOf = options.headersOf ?? (() => ({}))
  }

  describe(): JsonObject {
    const { method, baseUrl, path, auth } = this.#mapping
    return { method, url: `${baseUrl}${path}`, ...(auth !== undefined && { auth }) }
  }

  async run(call: WireCall): Promise<WireAnswer> {
    const { method, baseUrl, auth } = this.#mapping
    const base = new URL(baseUrl)
    const mapped = mapRequest(this.#mapping, call.arguments)
    const proof = auth === undefined ? noProof : await this.#credentials.proofFor(auth, base.origin)
    const query = [...mapped.query, ...proof.query].join('&')
    const request: ToolRequest = {
      origin: base.origin,
      path: `${base.pathname.replace(/\/$/, '')}${mapped.path}${query === '' ? '' : `?${query}`}`,
      method,
      headers: {
        ...this.#headersOf(call),
        accept: 'application/json, text/*;q=0.5, */*;q=0.1',
        'accept-encoding': 'identity',
        'user-agent': 'toolwright',
        ...mapped.headers,
        ...proof.headers
      },
      ...(mapped.body !== undefined && { body: mapped.body })
    }
    const answer = await this.#client.send(call, () => request)
    return { value: readAnswer(answer, striker(proof.secrets)) }
  }
}

type Strike = <Value extends JsonValue>(value: Value) => Value

/** Takes secrets out of a value, whatever its depth. */
function striker(secrets: readonly string[]): Strike {
  if (secrets.length === 0) return (value) => value
  const strike = strikeOut(secrets)
  return <Value extends JsonValue>(value: Value) => parseJson(strike(stringifyJson(value))) as Value
}

function readAnswer({ statusCode, headers, body }: ToolAnswer, strike: Strike): JsonValue {
  const type = headers['content-type']
  if (statusCode < 200 || statusCode > 299) {
    const told = isText(type) ? strike(textOf(body)).slice(0, maxToldCharacters) : ''
    const isRedirect = statusCode < 400 && headers.location !== undefined
    throw statusError(statusCode, isRedirect, told === '' ? '' : `: ${told}`)
  }
  if (body.length === 0) return null
  if (isJson(type)) return strike(readJson(type, body))
  if (isText(type)) return strike(textOf(body))
  throw badAnswer(`it is ${typeName(type)}, neither JSON nor text`)
}

const isText = (type: string | undefined): boolean =>
  isJson(type) || /^\s*(text\/|application\/([\w.-]+\+)?xml|application\/x-ndjson|application\/yaml)/i.test(type ?? '')

/** What is no UTF-8 can still be read where it is ASCII. */
const textOf = (body: Buffer): string => readUtf8(body) ?? new TextDecoder().decode(body)
