import { toUSVString } from 'node:util'
import { contentOf, memberOf, requestJson, sourceOf } from './search-request.ts'
import type { SearchAnswer, SearchProvider } from './web.ts'

/** How a search service is asked, and where in its answer things are. Paths are such as `data.items`; an empty one is the whole. */
export interface HttpSearchService {
  /** `{query}`, `{count}` and `{key}` in it are replaced, encoded for a URL. */
  url: string
  /** Of the request; the same three are replaced as they are, so that a header can hold a key. */
  headers?: Readonly<Record<string, string>>
  /** A JSON value that is sent by POST; in its strings the three are replaced, and `{count}` alone becomes a number. Absent: a GET. */
  body?: unknown
  /** Where the list of results is. */
  results: string
  /** Members of a result. */
  fields: { url: string; title?: string; snippet?: string; publishedAt?: string }
  /** Where an answer in words is. */
  answer?: string
}

export interface HttpSearchOptions {
  service: HttpSearchService
  /** What `{key}` stands for. */
  key: string
  timeoutMs: number
  userAgent: string
}

/** Search by any service that takes a query over HTTP and answers with JSON (backends.md §8.3). */
export class HttpSearch implements SearchProvider {
  readonly id = 'http'
  readonly #options: HttpSearchOptions

  constructor(options: HttpSearchOptions) {
    this.#options = options
  }

  /** Not without a URL, nor without the key that it is asked with. */
  isUsable(): boolean {
    const { service, key } = this.#options
    const asksForKey = JSON.stringify([service.url, service.headers, service.body]).includes('{key}')
    return URL.canParse(service.url.replaceAll(/[{}]/g, '')) && (!asksForKey || key !== '')
  }

  async search(
    query: string,
    { maxResults, signal }: { maxResults: number; signal: AbortSignal }
  ): Promise<SearchAnswer> {
    const { service, key, timeoutMs, userAgent } = this.#options
    const values = new Map([
      // Half a character cannot be encoded for a URL.
      ['query', toUSVString(query)],
      ['count', String(maxResults)],
      ['key', key]
    ])
    const fill = (text: string, encode = (value: string) => value): string =>
      // A function, since `$&` in a query would be a pattern.
      text.replaceAll(/\{(query|count|key)\}/g, (_all, name: string) => encode(values.get(name) ?? ''))
    const filled = Object.entries(service.headers ?? {}).map(([name, value]) => [name.toLowerCase(), fill(value)])
    const hasBody = service.body !== undefined
    const request = {
      url: new URL(fill(service.url, encodeURIComponent)),
      method: hasBody ? ('POST' as const) : ('GET' as const),
      headers: {
        'user-agent': userAgent,
        ...(hasBody && { 'content-type': 'application/json' }),
        ...(Object.fromEntries(filled) as Record<string, string>)
      },
      ...(hasBody && {
        body: JSON.stringify(service.body, (_name, value: unknown) => replaced(value, fill, maxResults))
      })
    }
    return readAnswer(await requestJson(request, { timeoutMs, signal }), service, maxResults)
  }
}

function replaced(value: unknown, fill: (text: string) => string, count: number): unknown {
  if (value === '{count}') return count
  return typeof value === 'string' ? fill(value) : value
}

function readAnswer(answer: unknown, { results, fields, answer: answerPath }: HttpSearchService, maxResults: number) {
  const list = memberOf(answer, results)
  const sources = (Array.isArray(list) ? (list as unknown[]) : []).flatMap((result) => {
    const member = (path: string | undefined): unknown => (path === undefined ? undefined : memberOf(result, path))
    return (
      sourceOf({
        url: member(fields.url),
        title: member(fields.title),
        snippet: member(fields.snippet),
        publishedAt: member(fields.publishedAt)
      }) ?? []
    )
  })
  return {
    ...contentOf(answerPath === undefined ? undefined : memberOf(answer, answerPath)),
    sources: sources.slice(0, maxResults),
    truncated: sources.length > maxResults
  }
}
