import { RequestError } from '../errors.ts'
import type { JsonObject } from '../json/lossless.ts'
import { ownValue } from '../json/plain.ts'
import type { Scope } from '../scopes/scope.ts'
import type { Executor } from './executor.ts'
import { reported, type ReportFailure } from './http-executor-report.ts'
import { type CallHeaders, HttpExecutor, toolUrl } from './http-executor.ts'
import type { HttpToolClient } from './http-executor-client.ts'
import type { HttpCredentials } from './http-executor-credentials.ts'
import { HttpToolError } from './http-executor-errors.ts'
import { signingSecret } from './http-executor-signature.ts'
import { MappedExecutor } from './import/mapped-executor.ts'
import type { RequestMapping } from './import/request-mapping.ts'

/** What a tool with the executor kind `http` is registered with: the `url` of its server, or, of an imported one, how to make its requests. */
type HttpSettings = JsonObject & { url?: string; request?: JsonObject }

/** Makes the executors of the kind `http` (api.md §3), which share their connections, limits and secrets. */
export class HttpTools {
  readonly #client: HttpToolClient
  readonly #master: string
  readonly credentials: HttpCredentials
  readonly #report: ReportFailure
  /** Headers of each call beyond those of the protocol; set by what traces calls. */
  headersOf: CallHeaders = () => ({})

  constructor(options: {
    client: HttpToolClient
    credentials: HttpCredentials
    master: string
    report: ReportFailure
  }) {
    this.#client = options.client
    this.#master = options.master
    this.credentials = options.credentials
    this.#report = options.report
  }

  /**
   * The executor of a stored or new tool. Throws `INVALID_DEFINITION` for settings that are none. An address that may not be reached is no
   * fault here: a tool comes back after a restart under another configuration, and its calls say so.
   */
  open(settings: HttpSettings, scope: Scope): Executor {
    const headersOf: CallHeaders = (call) => this.headersOf(call)
    const request = ownValue(settings, 'request')
    if (request !== undefined) {
      const mapping = request as RequestMapping
      const executor = new MappedExecutor({ mapping, client: this.#client, credentials: this.credentials, headersOf })
      return reported(executor, new URL(mapping.baseUrl).origin, this.#report)
    }
    const url = toolUrl(ownValue(settings, 'url'), 'executor.url')
    const secret = signingSecret(this.#master, scope.id, url.origin)
    return reported(new HttpExecutor({ url, client: this.#client, secret, headersOf }), url.origin, this.#report)
  }

  /** What the server of a tool is to verify signatures with, for who registers the tool. Throws `INVALID_DEFINITION`. */
  secretOf(settings: HttpSettings, scope: Scope): string {
    return signingSecret(this.#master, scope.id, toolUrl(ownValue(settings, 'url'), 'executor.url').origin)
  }

  /** Throws `INVALID_DEFINITION` for a URL that new tools may not be at, as far as the URL alone tells. */
  assertRegistrable(settings: HttpSettings): void {
    try {
      this.assertAllowed(toolUrl(ownValue(settings, 'url'), 'executor.url'))
    } catch (error) {
      if (error instanceof HttpToolError)
        throw new RequestError('INVALID_DEFINITION', `"executor.url": ${error.message}.`)
      throw error
    }
  }

  /** Throws `HttpToolError` (`HTTP_TOOL_BLOCKED`) likewise. */
  assertAllowed(url: URL): void {
    this.#client.assertAllowed(url)
  }
}
