import { Type } from '@sinclair/typebox'

const closed = { additionalProperties: false }
const path = Type.String()

/** An http or https URL; what it may hold besides is said where it is used. */
export const httpUrl = Type.String({ pattern: '^https?://[^/?#]' })

/** How a search service is asked, and where in its answer things are: `HttpSearchService` of backends/web. */
export const searchService = Type.Object(
  {
    url: httpUrl,
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
