import type { FastifyInstance } from 'fastify'
import { mayDo } from '../server/auth/principal.ts'
import { importOpenApi } from '../server/executors/import/import-openapi.ts'
import type { JsonObject } from '../server/json/lossless.ts'
import { reachScope } from './reach.ts'
import { errorResponses } from './schemas/error-responses.ts'
import { ImportAnswer, ImportBody } from './schemas/tools-import.ts'
import type { TypeBoxProvider } from './schemas/type-provider.ts'

/** 500 operations were seen to take a few seconds; hostile schemas may take a quarter of one each, several times. */
const maxImportMs = 60_000

/** Tools from an OpenAPI document (api.md §3). */
export async function toolImportRoutes(fastify: FastifyInstance): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()

  app.post(
    '/tools/import',
    {
      config: { action: 'tools:register', startsWork: true, dataPaths: ['document'], keepsBodyText: true },
      schema: {
        summary: 'Registers tools for the operations of an OpenAPI document',
        body: ImportBody,
        response: {
          200: ImportAnswer,
          ...errorResponses(
            'UNKNOWN_SCOPE',
            'INVALID_DEFINITION',
            'UNSUPPORTED_SCHEMA',
            'DUPLICATE_TOOL',
            'RATE_LIMITED'
          )
        }
      }
    },
    async ({ principal, body, bodyText = '' }) => {
      const { scope: scopeId, document: _document, dryRun = false, ...options } = body
      const scope = reachScope(app, principal, scopeId)
      const isAdmin = mayDo(principal, 'scopes:write')
      const { auth } = options
      if (auth !== undefined) {
        app.httpTools.credentials.assertUsable(auth, { chain: scope.chain.map(({ id }) => id), isAdmin })
      }
      const { tools, skipped, notes } = await importOpenApi(bodyText, options, {
        schemas: app.wireSchemas,
        assertAllowed: (url) => app.httpTools.assertAllowed(url),
        maxMs: maxImportMs,
        isAuthFor: (origin) => auth !== undefined && app.httpTools.credentials.isFor(auth, origin)
      })
      const named = tools.map(({ tool, operation }) => ({ name: tool.name, operation }))
      if (dryRun) return { scope: scope.id, tools: named, quarantined: [], skipped, notes }
      const reach = reachScope(app, principal)
      const { registered, quarantined, taken, beyond } = await app.importedTools.register(
        { reach, mayConfigure: isAdmin },
        scope.id,
        tools.map(({ tool, request }) => ({
          tool,
          executor: { kind: 'http', request: request as unknown as JsonObject }
        }))
      )
      const without = (names: readonly string[], why: (name: string) => string) =>
        named
          .filter(({ name }) => names.includes(name))
          .map(({ name, operation }) => ({ operation, reason: why(name) }))
      return {
        scope: scope.id,
        tools: named.filter(({ name }) => registered.has(name)),
        quarantined: quarantined.map(({ changes, ...tool }) => ({ ...tool, changes: [...changes] })),
        skipped: [
          ...skipped,
          ...without(taken, (name) => `another tool is called "${name}" there`),
          ...without(beyond, () => 'too many names were imported into this scope')
        ],
        notes
      }
    }
  )
}
