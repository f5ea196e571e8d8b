import { toUSVString } from 'node:util'
import { withDeadline } from './deadline.ts'
import { decoded, readText, acceptedCodings } from './response-body.ts'
import { type SearchSource, WebError } from './web.ts'
import { headerOf, providerError } from './web-errors.ts'

/** Of one answer of a search service. */
const MAX_ANSWER_BYTES = 2_000_000
const MAX_TITLE_CHARACTERS = 300
const MAX_SNIPPET_CHARACTERS = 1_000
const MAX_URL_CHARACTERS = 2_048
/** Of the words that answer one query. */
const MAX_CONTENT_CHARACTERS = 20_000

export interface SearchRequest {
  url: URL
  method: 'GET' | 'POST'
  headers: Record<string, string>
  body?: string
}

/**
 * Asks a search service and gives the JSON that it answers. The operator has configured its address, which may well be private: the
 * address guard has no say here. Redirects are not followed. Rejects with WebError.
 */
export async function requestJson(
  { url, method, headers, body }: SearchRequest,
  { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal }
): Promise<unknown> {
  const { Agent } = await import('undici')
  const agent = new Agent({ headersTimeout: timeoutMs, bodyTimeout: timeoutMs, connect: { timeout: timeoutMs } })
  const ask = async (stop: AbortSignal): Promise<string> => {
    const path = `${url.pathname}${url.search}`
    const asked = { accept: 'application/json', 'accept-encoding': acceptedCodings, ...headers }
    const request = { origin: url.origin, path, method, headers: asked, body: body ?? null, signal: stop }
    const response = await agent.request(request)
    response.body.on('error', () => {})
    if (response.statusCode < 200 || response.statusCode > 299) {
      throw new WebError('WEB_PROVIDER_ERROR', `the search service answered with status ${response.statusCode}`)
    }
    const coded = decoded(response.body, headerOf(response.headers, 'content-encoding'))
    const limits = { maxBytes: MAX_ANSWER_BYTES, maxCharacters: MAX_ANSWER_BYTES }
    const { content, truncated } = await readText(coded, { kind: 'text' }, limits)
    if (truncated) throw new WebError('WEB_PROVIDER_ERROR', 'the answer of the search service is too large')
    return content
  }
  try {
    const limit = {
      timeoutMs,
      timedOut: () => new WebError('WEB_SEARCH_TIMEOUT', `the search took longer than ${timeoutMs} ms`),
      signal,
      aborted: () => new WebError('WEB_ABORTED', 'the search was aborted')
    }
    return parsed(await withDeadline(limit, ask))
  } catch (error) {
    throw providerError(error)
  } finally {
    void agent.destroy().catch(() => {})
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new WebError('WEB_PROVIDER_ERROR', 'the search service did not answer with JSON')
  }
}

/** A member of parsed JSON by its path, such as `data.items.0`; undefined where there is none. An empty path is the whole. */
export function memberOf(value: unknown, path: string): unknown {
  let at = value
  for (const key of path === '' ? [] : path.split('.')) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined
    at = (at as Record<string, unknown>)[key]
  }
  return at
}

/** A source out of what a service says, all of which may be anything; undefined without an http or https URL. */
export function sourceOf(
  found: Record<'url' | 'title' | 'snippet' | 'publishedAt', unknown>
): SearchSource | undefined {
  const { url } = found
  if (typeof url !== 'string' || url.length > MAX_URL_CHARACTERS || !URL.canParse(url)) return undefined
  const { protocol, href } = new URL(url)
  if ((protocol !== 'http:' && protocol !== 'https:') || href.length > MAX_URL_CHARACTERS) return undefined
  const title = lineOf(found.title, MAX_TITLE_CHARACTERS)
  const snippet = lineOf(found.snippet, MAX_SNIPPET_CHARACTERS)
  const publishedAt = lineOf(found.publishedAt, 100)
  return {
    url: href,
    ...(title !== undefined && { title }),
    ...(snippet !== undefined && { snippet }),
    ...(publishedAt !== undefined && { publishedAt })
  }
}

/** The answer in words, if there is one. */
export function contentOf(said: unknown): { content?: string } {
  if (typeof said !== 'string' || said.trim() === '') return {}
  return { content: shortened(said.trim(), MAX_CONTENT_CHARACTERS) }
}

function lineOf(said: unknown, maxCharacters: number): string | undefined {
  if (typeof said !== 'string') return undefined
  const line = shortened(said, maxCharacters * 2)
    .replaceAll(/\s+/g, ' ')
    .trim()
  return line === '' ? undefined : shortened(line, maxCharacters)
}

function shortened(text: string, maxCharacters: number): string {
  const fits = text.length <= maxCharacters
  return toUSVString(fits ? text : `${text.slice(0, maxCharacters - 1).replace(/[\uD800-\uDBFF]$/, '')}…`)
}
