import type { Agent, Dispatcher } from 'undici'
import type { AddressGuard } from './address-guard.ts'
import { withDeadline } from './deadline.ts'
import { guardedAgent } from './guarded-agent.ts'
import { readMediaType, unsupported } from './media-type.ts'
import { acceptedCodings, assertLength, decoded, readText } from './response-body.ts'
import { type FetchedPage, type FetchProvider, MAX_BODY_CHARACTERS, WebError } from './web.ts'
import { headerOf, providerError } from './web-errors.ts'

/** backends.md §8.2. */
const MAX_URL_CHARACTERS = 2_048
const MAX_REDIRECTS = 5
const redirects = new Set([301, 302, 303, 307, 308])

export interface HttpFetchOptions {
  guard: AddressGuard
  /** For a whole fetch, redirects included. */
  timeoutMs: number
  /** Of one body, as it is without content coding. */
  maxBytes: number
  userAgent: string
}

type Response = Dispatcher.ResponseData

/**
 * Anonymous GETs over HTTP (backends.md §8.2): no cookies, no credentials, no proxy, no cache. A fetch has connections of its own, and
 * leaves none open.
 */
export class HttpFetch implements FetchProvider {
  readonly id = 'http'
  readonly #options: HttpFetchOptions

  constructor(options: HttpFetchOptions) {
    this.#options = options
  }

  isUsable(): boolean {
    return true
  }

  async fetch(url: string, signal: AbortSignal): Promise<FetchedPage> {
    const { guard, timeoutMs } = this.#options
    const first = parseUrl(url)
    guard.assertUrl(first)
    const agent = await guardedAgent(guard, { timeoutMs })
    try {
      return await withDeadline(
        {
          timeoutMs,
          timedOut: () => new WebError('WEB_FETCH_TIMEOUT', `the fetch took longer than ${timeoutMs} ms`),
          signal,
          aborted: () => new WebError('WEB_ABORTED', 'the fetch was aborted')
        },
        (stop) => this.#follow(first, agent, stop)
      )
    } catch (error) {
      throw providerError(error)
    } finally {
      // Not awaited: a name that is still being looked up would hold the answer back.
      void agent.destroy().catch(() => {})
    }
  }

  async #follow(first: URL, agent: Agent, signal: AbortSignal): Promise<FetchedPage> {
    let url = first
    for (let hops = 0; ; hops += 1) {
      const response = await this.#get(url, agent, signal)
      // Bodies that nobody reads end with the agent; their errors are nobody's.
      response.body.on('error', () => {})
      if (!redirects.has(response.statusCode)) return this.#read(url, response)
      response.body.destroy()
      url = this.#next(url, response)
      if (hops === MAX_REDIRECTS) {
        throw new WebError('WEB_REDIRECT_BLOCKED', `more than ${MAX_REDIRECTS} redirects`)
      }
    }
  }

  async #get(url: URL, agent: Agent, signal: AbortSignal): Promise<Response> {
    const headers = {
      accept:
        'text/html, application/xhtml+xml, text/*;q=0.9, application/json;q=0.9, application/xml;q=0.8, */*;q=0.1',
      'accept-encoding': acceptedCodings,
      'user-agent': this.#options.userAgent
    }
    return agent.request({ origin: url.origin, path: `${url.pathname}${url.search}`, method: 'GET', headers, signal })
  }

  /** Where a redirect leads, if it may be followed: it could else be used to get around what is allowed for the first URL. */
  #next(url: URL, { statusCode, headers }: Response): URL {
    const location = headerOf(headers, 'location')
    if (location === undefined || !URL.canParse(location, url.href)) {
      throw new WebError('WEB_PROVIDER_ERROR', `status ${statusCode}, a redirect, without a location`)
    }
    const next = new URL(location, url)
    if (next.origin !== url.origin) {
      const target = next.href.slice(0, MAX_URL_CHARACTERS)
      throw new WebError('WEB_REDIRECT_BLOCKED', `redirected to another origin, which is not followed: ${target}`)
    }
    assertUrlLength(next.href)
    this.#options.guard.assertUrl(next)
    return next
  }

  async #read(url: URL, { statusCode, headers, body }: Response): Promise<FetchedPage> {
    const { maxBytes } = this.#options
    const { href } = url
    const contentType = headerOf(headers, 'content-type')
    if (contentType === undefined) {
      // Many answers that have nothing to say say nothing of its type either.
      for await (const piece of body) {
        if ((piece as Buffer).length > 0) throw unsupported('it has no content type')
      }
      return { url: href, statusCode, body: { kind: 'text', content: '' }, truncated: false }
    }
    const type = readMediaType(contentType)
    assertLength(headerOf(headers, 'content-length'), maxBytes)
    const coded = decoded(body, headerOf(headers, 'content-encoding'))
    const { content, truncated } = await readText(coded, type, { maxBytes, maxCharacters: MAX_BODY_CHARACTERS })
    return { url: href, statusCode, body: { kind: type.kind, content }, truncated }
  }
}

function parseUrl(url: string): URL {
  assertUrlLength(url)
  if (!URL.canParse(url)) throw new WebError('WEB_INVALID_URL', 'this is no URL such as https://example.com/page')
  const parsed = new URL(url)
  assertUrlLength(parsed.href)
  return parsed
}

function assertUrlLength({ length }: string): void {
  if (length > MAX_URL_CHARACTERS) {
    throw new WebError('WEB_INVALID_URL', `the URL has ${length} characters; ${MAX_URL_CHARACTERS} are the most`)
  }
}
