import type { MarkdownConverter } from './markdown-converter.ts'
import { ProviderRegistry } from './provider-registry.ts'
import type { FetchedPage, FetchProvider, Markdown, SearchAnswer, SearchProvider, Web } from './web.ts'

/** The web as its registered providers give it (backends.md §8.1). */
export class WebProviders implements Web {
  readonly #fetch: ProviderRegistry<FetchProvider>
  readonly #search: ProviderRegistry<SearchProvider>
  readonly #converter: MarkdownConverter

  /** Ids of the providers to use; absent: whichever one is usable. */
  constructor(converter: MarkdownConverter, ids: { fetchProvider?: string; searchProvider?: string } = {}) {
    this.#converter = converter
    this.#fetch = new ProviderRegistry('web fetch', ids.fetchProvider)
    this.#search = new ProviderRegistry('web search', ids.searchProvider)
  }

  get providers(): Web['providers'] {
    return { fetch: this.#fetch.ids, search: this.#search.ids }
  }

  registerFetch(provider: FetchProvider): () => void {
    return this.#fetch.register(provider)
  }

  registerSearch(provider: SearchProvider): () => void {
    return this.#search.register(provider)
  }

  async fetch(url: string, signal: AbortSignal): Promise<FetchedPage> {
    return this.#fetch.select().fetch(url, signal)
  }

  async search(query: string, options: { maxResults: number; signal: AbortSignal }): Promise<SearchAnswer> {
    const { sources, truncated, ...answer } = await this.#search.select().search(query, options)
    return {
      ...answer,
      sources: sources.slice(0, options.maxResults),
      truncated: truncated || sources.length > options.maxResults
    }
  }

  async toMarkdown(
    html: string,
    options: { maxCharacters: number; signal: AbortSignal }
  ): Promise<Markdown | undefined> {
    return this.#converter.convert(html, options)
  }
}
