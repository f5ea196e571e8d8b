import { type Static, Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import type { Confinement } from '../server/backends/sandbox/sandbox.ts'
import type { CodeRuntime } from '../server/code-runtime/code-runtime.ts'
import type { Config } from '../server/config/schema.ts'
import { shellExecutor } from '../server/config/shell-executor.ts'
import { errorResponses } from './schemas/error-responses.ts'
import type { TypeBoxProvider } from './schemas/type-provider.ts'

type Kept = Confinement | 'addresses'

const kept: Kept[] = ['writes', 'state', 'environment', 'processes', 'user', 'limits', 'network', 'addresses']

const Backend = Type.Object(
  {
    seam: Type.String({ description: 'What it is there for: `shell`, `code-runtime`.' }),
    backend: Type.String({ description: 'Which one it is: `bash-local`, `process`.' }),
    confines: Type.Array(Type.Unsafe<Kept>({ type: 'string', enum: kept }), {
      description: [
        'What it keeps from what it runs: `writes` to files, save where the sandbox mode of the session lets it; a sight of the data of the server',
        '(`state`), of its `environment` and of other `processes`; the `user` of the server; use beyond `limits` of the kernel; the `network`, or',
        'only the `addresses` that are not public. Empty: it may do whatever the user of the server may.'
      ].join(' ')
    }),
    sandbox: Type.Optional(Type.String({ description: 'What confines, where it is a backend of its own: `bwrap`.' })),
    unavailable: Type.Optional(Type.String({ description: 'Why it runs nothing, although it is configured.' }))
  },
  { description: 'A backend.' }
)

type Backend = Static<typeof Backend>

/** What runs and reaches things on behalf of callers, and what each of these backends keeps from it (api.md §9). */
export async function capabilityRoutes(
  fastify: FastifyInstance,
  config: Pick<Config, 'host' | 'shell' | 'sandbox' | 'codeRuntime'>
): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()

  app.get(
    '/capabilities',
    {
      config: { action: 'catalogue:read' },
      schema: {
        summary: 'The backends that are mounted, and what each confines',
        response: { 200: Type.Object({ backends: Type.Array(Backend) }), ...errorResponses() }
      }
    },
    async () => {
      const { sandbox, web } = app
      const unavailable = app.health.reasons()['sandbox']
      const shell = {
        confines: [...(sandbox?.confines ?? [])],
        ...(sandbox === undefined || unavailable !== undefined ? {} : { sandbox: sandbox.name }),
        ...(unavailable === undefined ? {} : { unavailable })
      }
      const webBackends = (seam: string, ids: readonly string[]): Backend[] =>
        ids.map((backend) => ({ seam, backend, confines: seam === 'web-fetch' ? ['addresses'] : [] }))
      const backends: Backend[] = [
        { seam: 'shell', backend: shellExecutor(config), ...shell },
        { seam: 'terminals', backend: 'shell', ...shell },
        // The tools for files and searches themselves keep out of the data of the server.
        { seam: 'files', backend: 'local', confines: sandbox === undefined ? ['state'] : ['writes', 'state'] },
        { seam: 'search', backend: 'ripgrep', ...shell, confines: sandbox === undefined ? ['state'] : shell.confines },
        { seam: 'subprocess', backend: 'managed-trees', confines: [] },
        ...programs(config.codeRuntime.backend, await app.codeRuntime),
        ...webBackends('web-fetch', web.providers.fetch),
        ...webBackends('web-search', web.providers.search)
      ]
      return { backends }
    }
  )
}

function programs(backend: Config['codeRuntime']['backend'], runtime: CodeRuntime | undefined): Backend[] {
  if (backend === 'off') return []
  const seam = 'code-runtime'
  if (runtime === undefined) return [{ seam, backend, confines: [], unavailable: 'it did not open' }]
  const { pidNamespace, ownUser, limits } = runtime.containment
  // The mounts of a world come with its namespace.
  const inNamespace: Kept[] = pidNamespace ? ['writes', 'state', 'environment', 'processes'] : []
  return [
    {
      seam,
      backend,
      confines: [...inNamespace, ...(ownUser ? ['user' as const] : []), ...(limits ? ['limits' as const] : [])]
    }
  ]
}
