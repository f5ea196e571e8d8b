import { type Static, Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { mayDo, type Principal } from '../server/auth/principal.ts'
import { RequestError } from '../server/errors.ts'
import type { Author } from '../server/registrations/check-change.ts'
import type { Scope } from '../server/scopes/scope.ts'
import type { ToolDefinition } from '../server/tools/definition.ts'
import { transportName } from '../server/tools/reserved-names.js'
import { reachScope } from './reach.ts'
import { errorResponses } from './schemas/error-responses.ts'
import { pageQuery, ScopeId } from './schemas/ids.ts'
import type { TypeBoxProvider } from './schemas/type-provider.ts'
import { Tool } from './schemas/tools.ts'
import { RegisteredTool, WireToolBody, wireToolDataPaths } from './schemas/wire-tools.ts'

const scopeQuery = { scope: Type.Optional(ScopeId) }

/** What a scope can call, as people and programs look at it, and what clients add to it (api.md §3). */
export async function toolRoutes(fastify: FastifyInstance): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()

  const authorOf = (principal: Principal): Author => ({
    reach: reachScope(app, principal),
    mayConfigure: mayDo(principal, 'scopes:write')
  })

  /** What runs on this very machine is an admin's. */
  const mayRegister = (principal: Principal, kind: string): boolean =>
    kind !== 'command' || mayDo(principal, 'server:administer')

  const describe = (principal: Principal, scope: Scope, tool: ToolDefinition): Static<typeof Tool> => {
    // Who registered a tool sees it whatever masks there are, and nobody above does.
    const owner = scope.chain.find((layer) => app.registry.lookup(tool.name, layer) === tool)
    const own = app.scopes.get(principal.scope)
    const isTransport = tool.name === transportName
    const isInReach = !isTransport && owner !== undefined && own !== undefined && owner.isWithin(own)
    const source = tool.describeSource?.()
    const parallel = source === undefined ? 'by-arguments' : 'parallel'
    return {
      name: tool.name,
      ...(isInReach ? { scope: owner.id } : {}),
      description: tool.description,
      parameters: tool.parameters,
      output: tool.output.schema,
      origin: isTransport ? 'code-mode' : (source?.origin ?? 'plugin'),
      // Where it runs is for those who could have registered it there.
      executor:
        source === undefined ? { kind: 'in-process' } : isInReach ? source.executor : { kind: source.executor.kind },
      limits: {
        ...(tool.timeoutMs === undefined ? {} : { timeoutMs: tool.timeoutMs }),
        concurrency: tool.isConcurrencySafe === undefined ? 'exclusive' : parallel
      },
      ...(tool.idempotent === undefined ? {} : { idempotent: tool.idempotent }),
      cards: { call: tool.presentCall !== undefined, result: tool.presentResult !== undefined }
    }
  }

  app.get(
    '/tools',
    {
      config: { action: 'catalogue:read' },
      schema: {
        summary: 'The tools that a scope sees, in order of registration',
        querystring: Type.Object(
          {
            ...scopeQuery,
            ...pageQuery,
            after: Type.Optional(Type.String({ maxLength: 64, description: 'The name after which to begin.' }))
          },
          { additionalProperties: false }
        ),
        response: {
          200: Type.Object({
            tools: Type.Array(Tool),
            next: Type.Optional(Type.String({ description: 'The `after` of the next page; absent at the end.' }))
          }),
          ...errorResponses('UNKNOWN_SCOPE')
        }
      }
    },
    async ({ principal, query }) => {
      const { limit = 100, after } = query
      const scope = reachScope(app, principal, query.scope)
      const view = app.registry.view(scope)
      const start = after === undefined ? 0 : view.findIndex(({ name }) => name === after) + 1
      if (after !== undefined && start === 0) throw new RequestError('BAD_REQUEST', 'The cursor names no tool.')
      const page = view.slice(start, start + limit)
      const next = start + limit < view.length ? page.at(-1)?.name : undefined
      return {
        tools: page.map((tool) => describe(principal, scope, tool)),
        ...(next === undefined ? {} : { next })
      }
    }
  )

  app.get(
    '/tools/:name',
    {
      config: { action: 'catalogue:read' },
      schema: {
        summary: 'One tool of a scope',
        params: Type.Object({ name: Type.String() }),
        querystring: Type.Object(scopeQuery, { additionalProperties: false }),
        response: { 200: Tool, ...errorResponses('UNKNOWN_SCOPE', 'NOT_FOUND') }
      }
    },
    async ({ principal, query, params }) => {
      const scope = reachScope(app, principal, query.scope)
      const tool = app.registry.lookup(params.name, scope)
      if (tool === undefined) throw new RequestError('NOT_FOUND')
      return describe(principal, scope, tool)
    }
  )

  app.post(
    '/tools',
    {
      config: { action: 'tools:register', startsWork: true, dataPaths: wireToolDataPaths },
      schema: {
        summary: 'Register a tool',
        description: [
          'Seen by the scope and all below it at once, and stored: it comes back after a restart. Its schemas are held to limits of size,',
          'depth and cost; no remote `$ref` is fetched.'
        ].join(' '),
        body: WireToolBody,
        response: {
          201: RegisteredTool,
          ...errorResponses(
            'UNKNOWN_SCOPE',
            'DUPLICATE_TOOL',
            'INVALID_DEFINITION',
            'UNSUPPORTED_SCHEMA',
            'RATE_LIMITED'
          )
        }
      }
    },
    async ({ principal, body }, reply) => {
      const { scope: scopeId, executor, ...tool } = body
      if (!mayRegister(principal, executor.kind)) {
        throw new RequestError('FORBIDDEN', `Tools with a ${executor.kind} executor are an admin’s to register.`)
      }
      if (executor.kind === 'http') app.httpTools.assertRegistrable(executor)
      const scope = await app.wireTools.register(authorOf(principal), scopeId, [{ tool, executor }])
      const registered = app.registry.lookup(tool.name, scope)?.describeSource?.()
      void reply.code(201).header('location', `/tools/${tool.name}?scope=${scope.id}`)
      return {
        name: tool.name,
        scope: scope.id,
        executor: registered?.executor ?? { kind: executor.kind },
        ...(executor.kind === 'http' && { signingSecret: app.httpTools.secretOf(executor, scope) })
      }
    }
  )

  app.delete(
    '/tools/:name',
    {
      config: { action: 'tools:register' },
      schema: {
        summary: 'Take a registered tool away',
        description: 'Calls of it that run come to their own end; later ones find no such tool. Tools of plugins stay.',
        params: Type.Object({ name: Type.String() }),
        querystring: Type.Object(scopeQuery, { additionalProperties: false }),
        response: { 204: Type.Null(), ...errorResponses('UNKNOWN_SCOPE', 'NOT_FOUND') }
      }
    },
    async ({ principal, params, query }, reply) => {
      const mayGo = ({ executor }: { executor: { kind: string } }): boolean => mayRegister(principal, executor.kind)
      const wasThere = await app.wireTools.remove(authorOf(principal), query.scope, params.name, mayGo)
      if (!wasThere) throw new RequestError('NOT_FOUND')
      return reply.code(204).send(null)
    }
  )
}
