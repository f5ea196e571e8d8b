import { createHash } from 'node:crypto'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import type { Config } from '../server/config/schema.ts'
import { RequestError } from '../server/errors.ts'
import type { JsonValue } from '../server/json/lossless.ts'
import { stringifyJson } from '../server/json/serialize.ts'
import type { Scope } from '../server/scopes/scope.ts'
import { createPromptAssembly, type Prompt, type SectionProvider } from '../server/tools/presentation.ts'
import { unlistedTools } from '../server/tools/reserved-names.js'
import { formatSchemas, type ProviderFormat } from '../server/tools/provider-formats.ts'
import { reachScope } from './reach.ts'
import { errorResponses } from './schemas/error-responses.ts'
import { ScopeId } from './schemas/ids.ts'
import { Format, FormatNote, JsonSchema, Mode } from './schemas/scopes.ts'
import type { TypeBoxProvider } from './schemas/type-provider.ts'

export interface PromptOptions {
  tools: Pick<Config['tools'], 'order'>
  /** What else a model must be told: code mode's sections. */
  sections?: SectionProvider
}

const params = Type.Object({ scope: ScopeId })
const querystring = Type.Object({ format: Format }, { additionalProperties: false })
const notes = Type.Optional(Type.Array(FormatNote))

/** What a model is to know of its tools (api.md §3). */
export async function promptRoutes(fastify: FastifyInstance, { tools, sections }: PromptOptions): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()
  const { registry } = app
  const order = tools.order.length === 0 ? {} : { toolOrder: orderOf(tools) }
  const assemble = createPromptAssembly({ catalogue: registry, ...(sections === undefined ? {} : { sections }) })
  // Agents ask before each step, and the text of an SDK takes a while to write.
  let prompts = new WeakMap<Scope, Map<ProviderFormat, { text: string; etag: string }>>()
  const stopListening = registry.onChange(() => {
    prompts = new WeakMap()
  })
  app.addHook('onClose', async () => stopListening())

  const promptOf = (scope: Scope, format: ProviderFormat): { text: string; etag: string } => {
    const known = prompts.get(scope) ?? new Map<ProviderFormat, { text: string; etag: string }>()
    const made = known.get(format) ?? write(prompt(scope), format)
    prompts.set(scope, known.set(format, made))
    return made
  }

  const prompt = (scope: Scope): Prompt => {
    try {
      return assemble({ scope, ...order })
    } catch (error) {
      // A plain error is about the configured order (core.md §7.12), which only this scope's tools show to be wrong.
      if (!(error instanceof Error) || error.name !== 'Error') throw error
      throw new RequestError('INVALID_DEFINITION', `tools.order: ${error.message}`, { cause: error })
    }
  }

  app.get(
    '/scopes/:scope/schemas',
    {
      config: { action: 'catalogue:read' },
      schema: {
        summary: 'The catalogue of a scope: every tool that it sees, in order of registration',
        params,
        querystring,
        response: {
          200: Type.Object({ schemas: Type.Array(JsonSchema), notes }),
          ...errorResponses('UNKNOWN_SCOPE')
        }
      }
    },
    async ({ principal, params: { scope: id }, query: { format = 'native' } }) => {
      const scope = reachScope(app, principal, id)
      app.registrations.used(scope)
      const { schemas, notes } = formatSchemas(registry.schemas(scope), format)
      return { schemas, ...(notes.length === 0 ? {} : { notes }) }
    }
  )

  app.get(
    '/scopes/:scope/prompt',
    {
      config: { action: 'catalogue:read' },
      schema: {
        summary: 'What a model is to be given under the mode of the scope',
        description:
          'The same bytes, and the same `ETag`, as long as the scope sees the same: `If-None-Match` is answered with 304.',
        params,
        querystring,
        headers: Type.Object({ 'if-none-match': Type.Optional(Type.String()) }),
        response: {
          200: Type.Unsafe<string>(
            Type.Object({
              mode: Mode,
              tools: Type.Array(JsonSchema),
              sections: Type.Array(Type.Object({ name: Type.String(), order: Type.Integer(), text: Type.String() })),
              notes
            })
          ),
          304: Type.Null(),
          ...errorResponses('UNKNOWN_SCOPE', 'CODE_RUNTIME_MISSING', 'INVALID_DEFINITION')
        }
      }
    },
    async ({ principal, params: { scope: id }, query: { format = 'native' }, headers }, reply) => {
      const scope = reachScope(app, principal, id)
      app.registrations.used(scope)
      const { text, etag } = promptOf(scope, format)
      void reply.header('etag', etag).header('cache-control', 'private, no-cache')
      if (isMatch(headers['if-none-match'], etag)) return reply.code(304).send(null)
      return reply.type('application/json; charset=utf-8').serializer(String).send(text)
    }
  )
}

/** Throws for an order that no set of tools could make good; which names there are, only a scope can tell. */
function orderOf({ order }: Pick<Config['tools'], 'order'>): readonly string[] {
  if (order.includes(unlistedTools) && new Set(order).size === order.length) return order
  throw new Error(`tools.order must contain "${unlistedTools}", and no name twice`)
}

function write({ mode, tools, sections }: Prompt, format: ProviderFormat): { text: string; etag: string } {
  const { schemas, notes } = formatSchemas(tools, format)
  const answer = { mode, tools: schemas, sections, ...(notes.length === 0 ? {} : { notes }) }
  const text = stringifyJson(answer as unknown as JsonValue)
  return { text, etag: `"${createHash('sha256').update(text).digest('base64url')}"` }
}

/** By the weak comparison, as a cache may have weakened the tag it sends (RFC 9110 §13.1.2). */
const isMatch = (header: string | undefined, etag: string): boolean =>
  header !== undefined &&
  header
    .split(',')
    .map((tag) => tag.trim().replace(/^W\//, ''))
    .some((tag) => tag === etag || tag === '*')
