import type { SearchAnswer, SearchSource } from '../../server/backends/web/web.ts'
import { isJsonObject, type JsonValue } from '../../server/json/lossless.ts'
import type { PresentedResult, ResultCard } from '../../server/tools/definition.ts'
import { fitting } from './search-text.ts'

/** The words of an answer that its card keeps: the value is not stored (backends.md §15.21). */
const MAX_CARD_ANSWER_CHARACTERS = 4_000

/** One answer out of those to several queries: the sources take turns by their rank, each URL once (backends.md §8.3). */
export function mergeAnswers(queries: readonly string[], answers: readonly SearchAnswer[], cap: number): SearchAnswer {
  const [only] = answers
  if (answers.length === 1 && only !== undefined) return only
  const labelled = answers.flatMap(({ content }, at) =>
    content === undefined ? [] : `${JSON.stringify(queries[at])}: ${content}`
  )
  const unique = new Map<string, SearchSource>()
  const deepest = Math.max(...answers.map(({ sources }) => sources.length))
  for (let rank = 0; rank < deepest; rank += 1) {
    for (const { sources } of answers) {
      const source = sources[rank]
      if (source !== undefined && !unique.has(source.url)) unique.set(source.url, source)
    }
  }
  return {
    ...(labelled.length > 0 && { content: labelled.join('\n\n') }),
    sources: [...unique.values()].slice(0, cap),
    truncated: answers.some(({ truncated }) => truncated) || unique.size > cap
  }
}

/** What a model reads of an answer. */
export function renderAnswer({ content, sources, truncated }: SearchAnswer): string {
  const list = sources.length === 0 ? 'No results found.' : `Sources:\n${sources.map(sourceLine).join('\n')}`
  return [
    ...(content === undefined ? [] : [content]),
    list,
    ...(truncated ? [`(Only the first ${sources.length} sources are shown.)`] : []),
    ...(sources.length === 0 ? [] : ['Cite the sources that an answer rests on, as Markdown links.'])
  ].join('\n\n')
}

function sourceLine({ url, title, snippet, publishedAt }: SearchSource): string {
  // What a page calls itself must not end the link that it is in.
  const name = (title ?? url).replaceAll(/[\\[\]]/g, String.raw`\$&`)
  const target = url.replaceAll('(', '%28').replaceAll(')', '%29')
  const date = publishedAt === undefined ? '' : ` (${publishedAt})`
  return `- [${name}](${target})${date}${snippet === undefined ? '' : `: ${snippet}`}`
}

/** What is stored of an answer, for its card. */
export function answerMeta({ content, sources, truncated }: SearchAnswer): JsonValue {
  const kept = fitting(sources.map((source) => ({ ...source })))
  return {
    sources: kept,
    truncated: truncated || kept.length < sources.length,
    ...(content !== undefined && {
      answer: content.slice(0, MAX_CARD_ANSWER_CHARACTERS).replace(/[\uD800-\uDBFF]$/, '')
    })
  }
}

/** A card out of what was stored, which may be old or damaged: then there is none (backends.md §1). */
export function searchCard(queries: readonly string[], { isError, meta }: PresentedResult): ResultCard | undefined {
  if (isError || !isJsonObject(meta)) return undefined
  const { sources, truncated, answer } = meta
  if (!Array.isArray(sources) || typeof truncated !== 'boolean') return undefined
  if (answer !== undefined && typeof answer !== 'string') return undefined
  const read = sources.flatMap((source) => storedSource(source) ?? [])
  if (read.length !== sources.length) return undefined
  const title = searchTitle(queries)
  return { card: 'web', kind: 'search', title, sources: read, truncated, ...(answer !== undefined && { answer }) }
}

export const searchTitle = (queries: readonly string[]): string => queries.join(', ')

function storedSource(source: JsonValue): SearchSource | undefined {
  if (!isJsonObject(source) || typeof source['url'] !== 'string') return undefined
  const members = ['title', 'snippet', 'publishedAt'].filter((name) => Object.hasOwn(source, name))
  if (members.some((name) => typeof source[name] !== 'string')) return undefined
  return { url: source['url'], ...Object.fromEntries(members.map((name) => [name, source[name]])) }
}
