import { describe, expect, it } from 'vitest'
import { MarkdownConverter } from '../../../server/backends/web/markdown-converter.ts'
import { WebProviders } from '../../../server/backends/web/providers.ts'
import type { SearchProvider, SearchSource } from '../../../server/backends/web/web.ts'

const signal = new AbortController().signal

const providers = (ids: { fetchProvider?: string; searchProvider?: string } = {}) =>
  new WebProviders(new MarkdownConverter({ timeoutMs: 1_000 }), ids)

const searching = (id: string, isUsable = true, sources: SearchSource[] = []): SearchProvider => ({
  id,
  isUsable: () => isUsable,
  search: async () => ({ content: id, sources, truncated: false })
})

/** The provider that a search uses, or the code that it fails with. */
const used = (web: WebProviders): Promise<string | undefined> =>
  web.search('q', { maxResults: 2, signal }).then(
    ({ content }) => content,
    (error: { code: string }) => error.code
  )

describe('C71 which provider', () => {
  it('is the only usable one when none is configured', async () => {
    const web = providers()
    expect(await used(web)).toBe('WEB_PROVIDER_UNAVAILABLE')
    web.registerSearch(searching('broken', false))
    expect(await used(web)).toBe('WEB_PROVIDER_UNAVAILABLE')
    web.registerSearch(searching('a'))
    expect(await used(web)).toBe('a')
    const undo = web.registerSearch(searching('b'))
    expect(await used(web)).toBe('WEB_PROVIDER_AMBIGUOUS')
    undo()
    expect(await used(web)).toBe('a')
  })

  it('is the configured one, whatever others there are', async () => {
    const web = providers({ searchProvider: 'b' })
    web.registerSearch(searching('a'))
    expect(await used(web)).toBe('WEB_PROVIDER_CONFIGURED_MISSING')
    const undo = web.registerSearch(searching('b', false))
    expect(await used(web)).toBe('WEB_PROVIDER_CONFIGURED_UNAVAILABLE')
    undo()
    web.registerSearch(searching('b'))
    expect(await used(web)).toBe('b')
  })

  it('is decided for each kind by itself', async () => {
    const web = providers()
    web.registerSearch(searching('a'))
    await expect(web.fetch('http://x.test/', signal)).rejects.toMatchObject({ code: 'WEB_PROVIDER_UNAVAILABLE' })
    web.registerFetch({ id: 'a', isUsable: () => true, fetch: async () => Promise.reject(new Error('asked')) })
    await expect(web.fetch('http://x.test/', signal)).rejects.toThrow('asked')
    expect(await used(web)).toBe('a')
  })
})

it('an id is registered once; its undo takes back no other’s', async () => {
  const web = providers()
  const undo = web.registerSearch(searching('a'))
  expect(() => web.registerSearch(searching('a'))).toThrow(expect.objectContaining({ code: 'WEB_DUPLICATE_PROVIDER' }))
  undo()
  web.registerSearch(searching('a'))
  undo()
  expect(await used(web)).toBe('a')
})

it('a provider that gives too much is cut', async () => {
  const web = providers()
  const sources = ['1', '2', '3'].map((name) => ({ url: `http://${name}.test/` }))
  web.registerSearch(searching('a', true, sources))
  const search = (maxResults: number) => web.search('q', { maxResults, signal })
  expect(await search(2)).toEqual({ content: 'a', sources: sources.slice(0, 2), truncated: true })
  expect(await search(3)).toEqual({ content: 'a', sources, truncated: false })
})
