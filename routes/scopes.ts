import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { mayDo, type Principal } from '../server/auth/principal.ts'
import { RequestError } from '../server/errors.ts'
import type { Author } from '../server/registrations/check-change.ts'
import type { Scope as LiveScope } from '../server/scopes/scope.ts'
import { reachScope } from './reach.ts'
import { errorResponses } from './schemas/error-responses.ts'
import { pageQuery, ScopeId } from './schemas/ids.ts'
import { Mask, Mode, Restriction, Scope, ScopeBody, type ScopeView } from './schemas/scopes.ts'
import type { TypeBoxProvider } from './schemas/type-provider.ts'

const scopeParams = Type.Object({ scope: ScopeId })

/** Making, looking at, changing and disposing scopes (api.md §3). */
export async function scopeRoutes(fastify: FastifyInstance): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()

  const authorOf = (principal: Principal): Author => ({
    reach: reachScope(app, principal),
    mayConfigure: mayDo(principal, 'scopes:write')
  })

  const view = (principal: Principal, scope: LiveScope): ScopeView => {
    const { presentAs, restrict = [], ttlMs } = app.registrations.of(scope) ?? {}
    // What is above the token's own scope does not exist for it.
    const parent = scope.id === principal.scope ? undefined : scope.parent
    return {
      id: scope.id,
      ...(parent === undefined ? {} : { parent: parent.id }),
      mode: app.registry.effectiveMode(scope),
      ...(presentAs === undefined ? {} : { presentAs }),
      ...(mayDo(principal, 'scopes:write') ? { restrictions: restrict.map(restrictionView) } : {}),
      ...(ttlMs === undefined ? {} : { ttlMs })
    }
  }

  app.get(
    '/scopes',
    {
      config: { action: 'catalogue:read' },
      schema: {
        summary: 'The scope of the token and all below it, in order of their ids',
        querystring: Type.Object(
          {
            ...pageQuery,
            after: Type.Optional(Type.String({ maxLength: 128, description: 'The id after which to begin.' }))
          },
          { additionalProperties: false }
        ),
        response: {
          200: Type.Object({
            scopes: Type.Array(Scope),
            next: Type.Optional(Type.String({ description: 'The `after` of the next page; absent at the end.' }))
          }),
          ...errorResponses('UNKNOWN_SCOPE')
        }
      }
    },
    async ({ principal, query }) => {
      const { limit = 100, after = '' } = query
      const rest = app.scopes
        .subtree(reachScope(app, principal))
        .filter(({ id }) => id > after)
        .toSorted((a, b) => (a.id < b.id ? -1 : 1))
      const page = rest.slice(0, limit)
      const next = rest.length > limit ? page.at(-1)?.id : undefined
      return { scopes: page.map((scope) => view(principal, scope)), ...(next === undefined ? {} : { next }) }
    }
  )

  app.get(
    '/scopes/:scope',
    {
      config: { action: 'catalogue:read' },
      schema: {
        summary: 'One scope',
        params: scopeParams,
        response: { 200: Scope, ...errorResponses('UNKNOWN_SCOPE') }
      }
    },
    async ({ principal, params }) => view(principal, reachScope(app, principal, params.scope))
  )

  app.put(
    '/scopes/:scope',
    {
      config: { action: 'scopes:create-below', startsWork: true },
      schema: {
        summary: 'Make a scope, or replace its mode, masks and idle time',
        description: [
          'What the body leaves out is not declared any more. An agent makes scopes below its own; masks and modes are for an',
          'admin to declare. A mask names tools that the scope inherits now.'
        ].join(' '),
        params: scopeParams,
        body: ScopeBody,
        response: {
          200: Scope,
          201: Scope,
          ...errorResponses('UNKNOWN_SCOPE', 'SCOPE_PARENT_FIXED', 'INVALID_DEFINITION', 'RATE_LIMITED')
        }
      }
    },
    async ({ principal, params, body }, reply) => {
      const { scope, isNew } = await app.registrations.put(authorOf(principal), params.scope, body)
      if (isNew) void reply.code(201).header('location', `/scopes/${scope.id}`)
      return view(principal, scope)
    }
  )

  app.delete(
    '/scopes/:scope',
    {
      config: { action: 'scopes:create-below' },
      schema: {
        summary: 'Dispose a scope and all below it',
        description:
          'Their calls are aborted; the answer comes when nothing of them runs any more. Their sessions stay in the log.',
        params: scopeParams,
        response: { 204: Type.Null(), ...errorResponses('UNKNOWN_SCOPE') }
      }
    },
    async ({ principal, params }, reply) => {
      await app.registrations.dispose(authorOf(principal), params.scope)
      return reply.code(204).send(null)
    }
  )

  app.post(
    '/scopes/:scope/restrictions',
    {
      config: { action: 'scopes:write', startsWork: true },
      schema: {
        summary: 'Put a mask on a scope',
        description:
          'Masks of a scope and of all above it intersect. The tools that are registered in the scope itself stay visible.',
        params: scopeParams,
        body: Mask,
        response: { 201: Restriction, ...errorResponses('UNKNOWN_SCOPE', 'INVALID_DEFINITION', 'RATE_LIMITED') }
      }
    },
    async ({ principal, params, body }, reply) => {
      const mask = await app.registrations.addMask(authorOf(principal), params.scope, body)
      void reply.code(201).header('location', `/scopes/${params.scope}/restrictions/${mask.id}`)
      return restrictionView(mask)
    }
  )

  app.delete(
    '/scopes/:scope/restrictions/:id',
    {
      config: { action: 'scopes:write' },
      schema: {
        summary: 'Take a mask back',
        params: Type.Object({ scope: ScopeId, id: Type.String({ maxLength: 128 }) }),
        response: { 204: Type.Null(), ...errorResponses('UNKNOWN_SCOPE', 'NOT_FOUND') }
      }
    },
    async ({ principal, params }, reply) => {
      const isThere = await app.registrations.removeMask(authorOf(principal), params.scope, params.id)
      if (!isThere) throw new RequestError('NOT_FOUND')
      return reply.code(204).send(null)
    }
  )

  app.put(
    '/scopes/:scope/presentation',
    {
      config: { action: 'scopes:write', startsWork: true },
      schema: {
        summary: 'Declare the mode of a scope',
        description:
          'For the scope and all below it that declare none. It takes the place of one declared here before.',
        params: scopeParams,
        body: Type.Object({ mode: Mode }, { additionalProperties: false }),
        response: { 200: Scope, ...errorResponses('UNKNOWN_SCOPE', 'INVALID_DEFINITION') }
      }
    },
    async ({ principal, params, body }) =>
      view(principal, await app.registrations.present(authorOf(principal), params.scope, body.mode))
  )

  app.delete(
    '/scopes/:scope/presentation',
    {
      config: { action: 'scopes:write' },
      schema: {
        summary: 'Take the mode of a scope back',
        params: scopeParams,
        response: { 204: Type.Null(), ...errorResponses('UNKNOWN_SCOPE', 'NOT_FOUND') }
      }
    },
    async ({ principal, params }, reply) => {
      const wasDeclared = await app.registrations.unpresent(authorOf(principal), params.scope)
      if (!wasDeclared) throw new RequestError('NOT_FOUND', 'This scope declares no mode of its own.')
      return reply.code(204).send(null)
    }
  )
}

const restrictionView = ({ id, allow, deny }: { id: string; allow?: readonly string[]; deny?: readonly string[] }) => ({
  id,
  ...(allow === undefined ? {} : { allow: [...allow] }),
  ...(deny === undefined ? {} : { deny: [...deny] })
})
