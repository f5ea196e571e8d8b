import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { AddressGuard } from '../../server/backends/web/address-guard.ts'
import { HttpFetch } from '../../server/backends/web/http-fetch.ts'
import { HttpSearch } from '../../server/backends/web/http-search.ts'
import { MarkdownConverter } from '../../server/backends/web/markdown-converter.ts'
import { WebProviders } from '../../server/backends/web/providers.ts'
import { SearxngSearch } from '../../server/backends/web/searxng-search.ts'
import type { Config } from '../../server/config/schema.ts'

/** The web (backends.md §8): pages over HTTP behind the address guard, and the search services that are configured. */
export const web = fp(
  async (fastify: FastifyInstance, { web: settings }: Pick<Config, 'web'>) => {
    const { fetchProvider, searchProvider, fetchTimeoutMs, maxFetchBytes, searchTimeoutMs, userAgent } = settings
    const guard = new AddressGuard({ allow: settings.allowAddresses, ports: settings.allowPorts })
    const converter = new MarkdownConverter({ timeoutMs: settings.convertTimeoutMs })
    const providers = new WebProviders(converter, {
      ...(fetchProvider !== undefined && { fetchProvider }),
      ...(searchProvider !== undefined && { searchProvider })
    })
    providers.registerFetch(new HttpFetch({ guard, timeoutMs: fetchTimeoutMs, maxBytes: maxFetchBytes, userAgent }))
    const search = { timeoutMs: searchTimeoutMs, userAgent }
    if (settings.searxngUrl !== undefined) {
      providers.registerSearch(new SearxngSearch({ ...search, url: settings.searxngUrl }))
    }
    if (settings.searchService !== undefined) {
      const key = settings.searchKey?.reveal() ?? ''
      providers.registerSearch(new HttpSearch({ ...search, service: settings.searchService, key }))
    }
    fastify.decorate('web', providers)
    fastify.addHook('onClose', () => converter.close())
  },
  { name: 'web', fastify: '5.x' }
)
