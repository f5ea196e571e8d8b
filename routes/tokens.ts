import { Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { rotateToken } from '../server/auth/admin-token.ts'
import { type Principal, roles, type ScopeReach } from '../server/auth/principal.ts'
import type { TokenInfo } from '../server/auth/tokens.ts'
import { RequestError } from '../server/errors.ts'
import { errorResponses } from './schemas/error-responses.ts'
import { pageQuery, ScopeId } from './schemas/ids.ts'
import type { TypeBoxProvider } from './schemas/type-provider.ts'

const TokenId = Type.String({ pattern: '^[0-9a-f]{16}$' })
const RoleName = Type.Unsafe<(typeof roles)[number]>({ type: 'string', enum: [...roles] })

const tokenFields = {
  id: TokenId,
  label: Type.String(),
  role: RoleName,
  scope: ScopeId,
  createdAt: Type.Integer(),
  expiresAt: Type.Optional(Type.Integer()),
  lastUsedAt: Type.Optional(
    Type.Integer({ description: 'When a request last came with it; a crash may lose the last minute.' })
  ),
  previousUntil: Type.Optional(
    Type.Integer({ description: 'Until when the secret before the last rotation is accepted too.' })
  )
}

const TtlMs = Type.Integer({ minimum: 1, maximum: 3_155_760_000_000 })

/** Making, listing, rotating and ending tokens (api.md §9): an admin's, and only for what lies in the admin's own scope. */
export async function tokenRoutes(
  fastify: FastifyInstance,
  { scopes, home }: { scopes: ScopeReach; home: string }
): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()

  // An admin of everything may name a scope that is yet to be made.
  const reaches = (principal: Principal, scope: string): boolean =>
    principal.scope === 'global' || principal.scope === scope || scopes.isWithin(scope, principal.scope)
  const visible = (principal: Principal): TokenInfo[] =>
    app.tokens.list().filter(({ scope }) => reaches(principal, scope))
  const find = (principal: Principal, id: string): TokenInfo => {
    const found = visible(principal).find((token) => token.id === id)
    if (found === undefined) throw new RequestError('NOT_FOUND')
    return found
  }

  app.post(
    '/tokens',
    {
      config: { action: 'tokens:manage', startsWork: true },
      schema: {
        summary: 'Make a token',
        description: 'The token itself is in this answer and nowhere else.',
        body: Type.Object(
          {
            label: Type.Optional(Type.String({ maxLength: 256, description: 'For people to tell tokens apart.' })),
            role: RoleName,
            scope: Type.Optional({
              ...ScopeId,
              description: 'What it reaches; an agent must name one, else the scope of the admin.'
            }),
            ttlMs: Type.Optional({ ...TtlMs, description: 'Without it the token does not expire.' })
          },
          { additionalProperties: false }
        ),
        response: { 201: Type.Object({ token: Type.String(), ...tokenFields }), ...errorResponses('UNKNOWN_SCOPE') }
      }
    },
    async ({ principal, body }, reply) => {
      const { label = '', role, scope = principal.scope, ttlMs } = body
      if (role === 'agent' && body.scope === undefined) {
        throw new RequestError('BAD_REQUEST', 'A token for an agent names its scope.')
      }
      if (!reaches(principal, scope)) throw new RequestError('UNKNOWN_SCOPE')
      const { token, info } = await app.tokens.create({ label, role, scope, ...(ttlMs !== undefined && { ttlMs }) })
      return reply.code(201).send({ token, ...info })
    }
  )

  app.get(
    '/tokens',
    {
      config: { action: 'tokens:manage' },
      schema: {
        summary: 'List the tokens',
        querystring: Type.Object({ ...pageQuery, after: Type.Optional(TokenId) }, { additionalProperties: false }),
        response: {
          200: Type.Object({ tokens: Type.Array(Type.Object(tokenFields)), next: Type.Optional(TokenId) }),
          ...errorResponses()
        }
      }
    },
    async ({ principal, query }) => {
      const { limit = 100, after } = query
      const all = visible(principal)
      const start = after === undefined ? 0 : all.findIndex(({ id }) => id === after) + 1
      if (after !== undefined && start === 0) throw new RequestError('BAD_REQUEST', 'The cursor names no token.')
      const tokens = all.slice(start, start + limit)
      const last = tokens.at(-1)
      return { tokens, ...(last && start + limit < all.length && { next: last.id }) }
    }
  )

  app.get(
    '/tokens/:id',
    {
      config: { action: 'tokens:manage' },
      schema: {
        summary: 'One token',
        params: Type.Object({ id: Type.String() }),
        response: { 200: Type.Object(tokenFields), ...errorResponses('NOT_FOUND') }
      }
    },
    async ({ principal, params }) => find(principal, params.id)
  )

  app.post(
    '/tokens/:id/rotate',
    {
      config: { action: 'tokens:manage', startsWork: true },
      schema: {
        summary: 'Give a token a new secret',
        description:
          'The new token is in this answer and nowhere else. The old one ends at once, or after `overlapMs`: then it is refused and its sockets are closed with 4403.',
        params: Type.Object({ id: Type.String() }),
        body: Type.Optional(
          Type.Object(
            {
              overlapMs: Type.Optional(
                Type.Integer({
                  minimum: 0,
                  maximum: 2_592_000_000,
                  default: 0,
                  description: 'How long the old secret stays good; at most 30 days, and no longer than the token.'
                })
              ),
              ttlMs: Type.Optional({ ...TtlMs, description: 'A new expiry, from now; the old one stays if absent.' })
            },
            { additionalProperties: false }
          )
        ),
        response: { 200: Type.Object({ token: Type.String(), ...tokenFields }), ...errorResponses('NOT_FOUND') }
      }
    },
    async ({ principal, params, body, log }) => {
      const { id } = find(principal, params.id)
      const rotated = await rotateToken(app.tokens, id, body ?? {}, {
        home,
        onUnsettled: (err) => log.warn({ err }, 'the admin-token file could not be replaced; the next start does that')
      })
      if (rotated === undefined) throw new RequestError('NOT_FOUND')
      return { token: rotated.token, ...rotated.info }
    }
  )

  app.delete(
    '/tokens/:id',
    {
      config: { action: 'tokens:manage' },
      schema: {
        summary: 'End a token',
        description: 'It is refused from then on, and its sockets are closed with 4403.',
        params: Type.Object({ id: Type.String() }),
        response: { 204: Type.Null(), ...errorResponses('NOT_FOUND') }
      }
    },
    async ({ principal, params }, reply) => {
      const { id } = find(principal, params.id)
      if (!(await app.tokens.revoke(id))) throw new RequestError('NOT_FOUND')
      return reply.code(204).send(null)
    }
  )
}
