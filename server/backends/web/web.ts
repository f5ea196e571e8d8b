import { CodedError } from '../../errors.ts'

export type WebErrorCode =
  | 'WEB_DUPLICATE_PROVIDER'
  | 'WEB_PROVIDER_CONFIGURED_MISSING'
  | 'WEB_PROVIDER_CONFIGURED_UNAVAILABLE'
  | 'WEB_PROVIDER_AMBIGUOUS'
  | 'WEB_PROVIDER_UNAVAILABLE'
  | 'WEB_PROVIDER_ERROR'
  | 'WEB_INVALID_URL'
  | 'WEB_BLOCKED_URL'
  | 'WEB_REDIRECT_BLOCKED'
  | 'WEB_FETCH_TOO_LARGE'
  | 'WEB_FETCH_TIMEOUT'
  | 'WEB_SEARCH_TIMEOUT'
  | 'WEB_UNSUPPORTED_CONTENT_TYPE'
  | 'WEB_ABORTED'

/** A refused or failed fetch or search (backends.md §8). */
export class WebError extends CodedError {
  declare readonly code: WebErrorCode
}

/** What a URL answered, whatever its status (backends.md §8.2). */
export interface FetchedPage {
  /** The last URL, after redirects. */
  url: string
  statusCode: number
  /** At most `MAX_BODY_CHARACTERS` UTF-16 units, no character cut in two. */
  body: { kind: 'html' | 'text'; content: string }
  /** There was more than `body` has. */
  truncated: boolean
}

/** The longest body of a page. */
export const MAX_BODY_CHARACTERS = 100_000

/** Something that was found; `url` is http or https. */
export interface SearchSource {
  url: string
  title?: string
  snippet?: string
  /** As the provider words it. */
  publishedAt?: string
}

/** What one query brought: an answer in words, if the provider gives one, and sources in their order. */
export interface SearchAnswer {
  content?: string
  sources: SearchSource[]
  /** There were more sources. */
  truncated: boolean
}

interface Provider {
  /** Unique among those of its kind. */
  readonly id: string
  /** Asked at each call. */
  isUsable(): boolean
}

/** Gets pages. Rejects with WebError; `signal` ends it with WEB_ABORTED. */
export interface FetchProvider extends Provider {
  fetch(url: string, signal: AbortSignal): Promise<FetchedPage>
}

/** Finds pages. Rejects with WebError; `signal` ends it with WEB_ABORTED. `maxResults` is what is wanted, not a promise. */
export interface SearchProvider extends Provider {
  search(query: string, options: { maxResults: number; signal: AbortSignal }): Promise<SearchAnswer>
}

/** Fetch and search by whatever provides them (backends.md §8.1). Which provider it is, is decided at each call. */
export interface Web {
  /** Ids of the providers that are registered now. */
  readonly providers: { readonly fetch: readonly string[]; readonly search: readonly string[] }
  /** Throws WEB_DUPLICATE_PROVIDER. Returns the idempotent undo. */
  registerFetch(provider: FetchProvider): () => void
  /** Throws WEB_DUPLICATE_PROVIDER. Returns the idempotent undo. */
  registerSearch(provider: SearchProvider): () => void
  fetch(url: string, signal: AbortSignal): Promise<FetchedPage>
  /** At most `maxResults` sources, whatever the provider gives. */
  search(query: string, options: { maxResults: number; signal: AbortSignal }): Promise<SearchAnswer>
  /**
   * HTML as Markdown, its first `maxCharacters`; undefined where that fails, takes too long, or the HTML nests too deep (backends.md
   * §8.2). Rejects only with WEB_ABORTED.
   */
  toMarkdown(html: string, options: { maxCharacters: number; signal: AbortSignal }): Promise<Markdown | undefined>
}

export interface Markdown {
  text: string
  truncated: boolean
}

declare module '../../services.ts' {
  interface Services {
    web: Web
  }
}
