import { Type } from '@sinclair/typebox'
import type { Secret } from './secret.ts'

const closed = { additionalProperties: false }
const path = Type.String()
const httpUrl = { pattern: '^https?://[^/?#]' }
const addresses = Type.Array(Type.String({ minLength: 1 }), {
  default: [],
  description: 'Addresses and CIDR ranges that web_fetch may reach although they are not public, as `10.1.0.0/16`.'
})
const ports = Type.Array(Type.Integer({ minimum: 1, maximum: 65_535 }), {
  default: [80, 443, 8000, 8080, 8443],
  description: 'Ports that web_fetch may reach; empty: every port.'
})
const providerId = (description: string) => Type.Optional(Type.String({ minLength: 1, description }))
const durationMs = (fallback: number, description: string) =>
  Type.Integer({ default: fallback, minimum: 1, maximum: 2_147_483_647, description })

/** How a search service is asked, and where in its answer things are: `HttpSearchService` of backends/web. */
const searchService = Type.Object(
  {
    url: Type.String(httpUrl),
    headers: Type.Optional(Type.Record(Type.String(), Type.String())),
    body: Type.Optional(Type.Unknown()),
    results: path,
    fields: Type.Object(
      { url: path, title: Type.Optional(path), snippet: Type.Optional(path), publishedAt: Type.Optional(path) },
      closed
    ),
    answer: Type.Optional(path)
  },
  {
    ...closed,
    description:
      'A search service that answers with JSON. `{query}`, `{count}` and `{key}` (`searchKey`) are replaced in `url`, in `headers` and ' +
      'in the strings of `body`, which makes it a POST. `results` is the path of the list, such as `data.items`; `fields` are ' +
      'members of a result; `answer` is the path of an answer in words.'
  }
)

/** The section `web` of the configuration (backends.md §8). */
export const webSettings = Type.Object({
  allowAddresses: addresses,
  allowPorts: ports,
  fetchProvider: providerId('Which provider fetches; absent: the only usable one. `http` is built in.'),
  fetchTimeoutMs: durationMs(30_000, 'Time of one fetch, redirects included.'),
  maxFetchBytes: Type.Integer({
    default: 5_000_000,
    minimum: 1,
    maximum: 100_000_000,
    description: 'Largest page: a declared larger one is refused, else the rest is cut off.'
  }),
  convertTimeoutMs: durationMs(5_000, 'Time to turn one page into Markdown; what takes longer stays HTML.'),
  userAgent: Type.String({
    default: 'Toolwright/1.0',
    pattern: '^[ -~]+$',
    description: 'User-Agent of requests to the web.'
  }),
  searchProvider: providerId(
    'Which provider searches; absent: the only usable one. `searxng` and `http` are built in.'
  ),
  searxngUrl: Type.Optional(
    Type.String({ ...httpUrl, description: 'A SearXNG instance, whose `search.formats` have `json`.' })
  ),
  searchService: Type.Optional(searchService),
  searchKey: Type.Optional(
    Type.Unsafe<Secret>({
      ...Type.String({ minLength: 1, description: 'The key of `searchService`: what `{key}` stands for.' }),
      secret: true
    })
  ),
  searchTimeoutMs: durationMs(30_000, 'Time of one query.'),
  maxResults: Type.Integer({
    default: 8,
    minimum: 1,
    maximum: 20,
    description: 'Sources that one web_search gives.'
  })
})
