import { text } from '../../server/authoring/content.ts'
import { defineTool } from '../../server/authoring/define-tool.ts'
import type { SearchAnswer, Web } from '../../server/backends/web/web.ts'
import type { ToolDefinition } from '../../server/tools/definition.ts'
import { definePlugin } from '../define-plugin.ts'
import { answerMeta, mergeAnswers, renderAnswer, searchCard, searchTitle } from './web-search-text.ts'

export interface WebSearchOptions {
  /** Sources that one call gives, and that are asked for with each query. */
  maxResults: number
}

const MAX_QUERIES = 4

/** The tool `web_search` (backends.md §8.3): what the web knows of one to four queries. */
export function webSearchTool({ web }: { web: Web }, { maxResults }: WebSearchOptions): ToolDefinition {
  return defineTool({
    name: 'web_search',
    description:
      `Searches the web for 1 to ${MAX_QUERIES} queries and gives up to ${maxResults} sources: title, URL and what they are about, ` +
      'and an answer in words where the search service has one. Several queries are searched side by side and their sources merged.',
    parameters: {
      queries: {
        type: 'array',
        items: { type: 'string' },
        required: true,
        description: `What to search for: 1 to ${MAX_QUERIES} queries.`
      }
    },
    output: {
      schema: {
        type: 'object',
        additionalProperties: false,
        properties: {
          content: { type: 'string', description: 'An answer in words.' },
          sources: {
            type: 'array',
            required: true,
            items: {
              type: 'object',
              additionalProperties: false,
              properties: {
                url: { type: 'string', required: true },
                title: { type: 'string' },
                snippet: { type: 'string' },
                publishedAt: { type: 'string' }
              }
            }
          },
          truncated: { type: 'boolean', required: true }
        }
      },
      render: (_args, answer) => text(renderAnswer(answer)),
      presentationMeta: (_args, answer) => answerMeta(answer)
    },
    timeoutMs: 30_000,
    isConcurrencySafe: () => true,
    idempotent: true,
    async execute({ queries }, { signal }) {
      assertQueries(queries)
      const distinct = [...new Set(queries)]
      return mergeAnswers(distinct, await searchAll(web, distinct, { maxResults, signal }), maxResults)
    },
    presentCall: ({ queries }) => ({
      card: 'generic',
      kind: 'search',
      title: `Search the web for ${searchTitle(queries)}`,
      rawInput: [...queries]
    }),
    presentResult: ({ queries }, result) => searchCard(queries, result)
  })
}

function assertQueries(queries: readonly string[]): void {
  if (queries.length === 0 || queries.length > MAX_QUERIES) {
    throw new Error(`queries has ${queries.length} items; it takes 1 to ${MAX_QUERIES}`)
  }
  if (queries.some((query) => query.trim() === '')) throw new Error('a query is blank')
}

/** Searches side by side. The first failure ends the others; when all have settled, it is what is thrown. */
async function searchAll(
  web: Web,
  queries: readonly string[],
  { maxResults, signal }: { maxResults: number; signal: AbortSignal }
): Promise<SearchAnswer[]> {
  const others = new AbortController()
  const onAbort = (): void => others.abort()
  signal.addEventListener('abort', onAbort, { once: true })
  if (signal.aborted) onAbort()
  const failures: unknown[] = []
  try {
    const settled = await Promise.allSettled(
      queries.map(async (query) => {
        try {
          return await web.search(query, { maxResults, signal: others.signal })
        } catch (error) {
          failures.push(error)
          others.abort()
          throw error
        }
      })
    )
    if (failures.length > 0) throw failures[0]
    return settled.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

export default definePlugin({ name: 'web-search', needs: ['web'] }, (tools, services, options: WebSearchOptions) => {
  tools.register(webSearchTool(services, options))
})
