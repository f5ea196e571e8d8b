import { describe, expect, it } from 'vitest'
import webSearch from '../../../plugins/tools/web-search.ts'
import { MarkdownConverter } from '../../../server/backends/web/markdown-converter.ts'
import { WebProviders } from '../../../server/backends/web/providers.ts'
import { type SearchAnswer, type SearchProvider, WebError } from '../../../server/backends/web/web.ts'
import type { JsonValue } from '../../../server/json/lossless.ts'
import { callCard, resultCard } from '../../../server/tools/cards.ts'
import { codeOf, PipelineFixture } from '../../helpers/pipeline-fixture.ts'
import { textIn } from '../../helpers/search-fixture.ts'

type Answers = Record<string, SearchAnswer | Error>

/** The tool on a provider that knows these queries; an unknown one waits for its abort. */
async function open(answers: Answers = {}, { maxResults = 8 } = {}) {
  const asked: string[] = []
  const aborted: string[] = []
  const provider: SearchProvider = {
    id: 'known',
    isUsable: () => true,
    search: async (query, { signal }) => {
      asked.push(query)
      const answer = answers[query]
      if (answer instanceof Error) throw answer
      if (answer !== undefined) return answer
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
      aborted.push(query)
      throw new WebError('WEB_ABORTED', 'aborted')
    }
  }
  const web = new WebProviders(new MarkdownConverter({ timeoutMs: 1_000 }))
  web.registerSearch(provider)
  const fixture = new PipelineFixture({ traced: false })
  await fixture.tools.mount(webSearch, { maxResults }, () => web)
  const search = (...queries: string[]) => fixture.call('web_search', { queries })
  return { fixture, web, search, asked, aborted }
}

const found = (...names: string[]): SearchAnswer => ({
  sources: names.map((name) => ({ url: `http://${name}.test/`, title: name })),
  truncated: false
})

const namesOf = (result: unknown): string[] =>
  (result as { value: SearchAnswer }).value.sources.map(({ url }) => new URL(url).hostname.replace('.test', ''))

describe('web_search', () => {
  it('C71 asks nobody for bad queries, and once for equal ones', async () => {
    const { search, asked } = await open({ a: found('x') })
    for (const queries of [[], ['a', 'b', 'c', 'd', 'e'], ['', 'x'], ['x', ' \n']]) {
      expect((await search(...queries)).isError).toBe(true)
    }
    expect(asked).toEqual([])
    expect((await search('a', 'a', 'a')).isError).toBe(false)
    expect(asked).toEqual(['a'])
  })

  it('C71 stays registered without a provider, and says what is missing when it is called', async () => {
    const fixture = new PipelineFixture({ traced: false })
    const web = new WebProviders(new MarkdownConverter({ timeoutMs: 1_000 }))
    await fixture.tools.mount(webSearch, { maxResults: 8 }, () => web)
    expect(codeOf(await fixture.call('web_search', { queries: ['a'] }))).toBe('WEB_PROVIDER_UNAVAILABLE')
  })

  it('gives answer, sources as links, and asks for citations', async () => {
    const { search } = await open({
      a: {
        content: 'Forty-two.',
        sources: [
          { url: 'http://x.test/a_(b)', title: 'The [best] \\ page', snippet: 'about it', publishedAt: '2026-01-02' },
          { url: 'http://y.test/' }
        ],
        truncated: true
      }
    })
    const result = await search('a')
    expect(textIn(result).split('\n\n')).toEqual([
      'Forty-two.',
      'Sources:\n- [The \\[best\\] \\\\ page](http://x.test/a_%28b%29) (2026-01-02): about it\n- [http://y.test/](http://y.test/)',
      expect.stringMatching(/first 2/),
      expect.stringMatching(/^Cite/)
    ])
    expect(result.meta).toMatchObject({ answer: 'Forty-two.', truncated: true })
  })

  it('says so when nothing is found', async () => {
    const { search } = await open({ a: found() })
    const result = await search('a')
    expect(result).toMatchObject({ isError: false, value: { sources: [], truncated: false } })
    expect(textIn(result)).toBe('No results found.')
  })

  it('merges several queries in turns, each URL once, up to the cap', async () => {
    const { search } = await open({
      a: { ...found('1', '2', '3'), content: 'one' },
      b: found('2', '4'),
      c: { ...found('5', '6', '7', '8', '9'), content: 'three' }
    })
    const result = await search('a', 'b', 'c')
    expect(namesOf(result)).toEqual(['1', '2', '5', '4', '6', '3', '7', '8'])
    expect(result).toMatchObject({ value: { content: '"a": one\n\n"c": three', truncated: true } })
    expect(await search('a', 'b')).toMatchObject({ value: { truncated: false } })
  })

  it('fails as the first query that fails, after the others have ended', async () => {
    const failure = new WebError('WEB_PROVIDER_ERROR', 'the service is down')
    const { search, asked, aborted } = await open({ good: found('1'), bad: failure })
    const result = await search('good', 'waits', 'bad', 'waits too')
    expect(codeOf(result)).toBe('WEB_PROVIDER_ERROR')
    expect(asked).toHaveLength(4)
    expect(aborted.sort()).toEqual(['waits', 'waits too'])
  })

  it('ends all queries with its caller', async () => {
    const { fixture, aborted } = await open()
    const { controller, result } = fixture.start('web_search', { queries: ['x', 'y'] })
    await new Promise((resolve) => setImmediate(resolve))
    controller.abort()
    expect(codeOf(await result)).toMatch(/^(WEB_)?ABORTED$/)
    expect(aborted.sort()).toEqual(['x', 'y'])
  })

  it('stores no more than a card needs', async () => {
    const sources = Array.from({ length: 20 }, (_, at) => ({
      url: `http://a.test/${at}/${'x'.repeat(2_000)}`,
      snippet: '你'.repeat(1_000),
      title: '你'.repeat(300)
    }))
    const { search } = await open({ a: { content: 'y'.repeat(20_000), sources, truncated: false } }, { maxResults: 20 })
    const { meta } = await search('a')
    expect(Buffer.byteLength(JSON.stringify(meta))).toBeLessThan(72_000)
    expect(meta).toMatchObject({ truncated: true })
  })
})

describe('cards of web_search', () => {
  const args = '{"queries":["a","b"]}'
  const cards = async () => {
    const { fixture } = await open()
    const tool = fixture.registry.lookup('web_search', fixture.tree.global)
    return {
      pending: (raw: string) => callCard(tool, raw),
      settled: (meta: JsonValue, isError = false) => resultCard(tool, args, { content: [], isError, meta })
    }
  }

  it('name the queries, then the sources', async () => {
    const { pending, settled } = await cards()
    expect(pending(args)).toMatchObject({ card: 'generic', kind: 'search', rawInput: ['a', 'b'] })
    expect(pending(args)).toHaveProperty('title', expect.stringContaining('a, b'))
    expect(pending('{"queries":"a"}')).toBeUndefined()
    const sources = [{ url: 'http://a.test/', title: 'A', snippet: 's', publishedAt: 'd' }, { url: 'http://b.test/' }]
    const meta = { sources, truncated: false, answer: 'x' }
    expect(settled(meta)).toEqual({ card: 'web', kind: 'search', title: 'a, b', ...meta })
  })

  it('are none for failures and damaged data', async () => {
    const { settled } = await cards()
    const meta = { sources: [{ url: 'http://a.test/' }], truncated: false }
    expect(settled(meta)).toBeDefined()
    expect(settled(meta, true)).toBeUndefined()
    const damaged: JsonValue[] = [
      null,
      [],
      {},
      { ...meta, sources: {} },
      { ...meta, sources: [null] },
      { ...meta, sources: [{ url: 1 }] },
      { ...meta, sources: [{ url: 'x', title: 1 }] },
      { ...meta, truncated: 'no' },
      { ...meta, answer: 1 }
    ]
    for (const broken of damaged) expect(settled(broken)).toBeUndefined()
  })
})
