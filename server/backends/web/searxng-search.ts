import { contentOf, memberOf, requestJson, sourceOf } from './search-request.ts'
import type { SearchAnswer, SearchProvider } from './web.ts'

export interface SearxngOptions {
  /** Of the instance, such as `http://localhost:8080`; its `search.formats` must have `json`. */
  url: string
  timeoutMs: number
  userAgent: string
}

/** Search by a SearXNG instance, or what speaks like one (backends.md §8.3). */
export class SearxngSearch implements SearchProvider {
  readonly id = 'searxng'
  readonly #options: SearxngOptions

  constructor(options: SearxngOptions) {
    this.#options = options
  }

  isUsable(): boolean {
    return URL.canParse(this.#options.url)
  }

  async search(
    query: string,
    { maxResults, signal }: { maxResults: number; signal: AbortSignal }
  ): Promise<SearchAnswer> {
    const { url: base, timeoutMs, userAgent } = this.#options
    const url = new URL('search', base.endsWith('/') ? base : `${base}/`)
    url.search = new URLSearchParams({ q: query, format: 'json' }).toString()
    const headers = { 'user-agent': userAgent }
    const answer = await requestJson({ url, method: 'GET', headers }, { timeoutMs, signal })
    const results = memberOf(answer, 'results')
    const sources = (Array.isArray(results) ? (results as unknown[]) : []).flatMap((result) => {
      const member = (name: string): unknown => memberOf(result, name)
      const found = { url: member('url'), title: member('title'), snippet: member('content') }
      return sourceOf({ ...found, publishedAt: member('publishedDate') }) ?? []
    })
    // Text in older releases, an object in newer ones.
    const first = memberOf(answer, 'answers.0')
    const content = contentOf(typeof first === 'string' ? first : memberOf(first, 'answer'))
    return { ...content, sources: sources.slice(0, maxResults), truncated: sources.length > maxResults }
  }
}
