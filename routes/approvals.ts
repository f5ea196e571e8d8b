import { type Static, Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import type { Approval } from '../server/approvals/approval.ts'
import type { Principal } from '../server/auth/principal.ts'
import { RequestError } from '../server/errors.ts'
import type { JsonValue } from '../server/json/lossless.ts'
import { errorResponses } from './schemas/error-responses.ts'
import { ClientId } from './schemas/ids.ts'
import type { TypeBoxProvider } from './schemas/type-provider.ts'

const verdictMembers = {
  decision: Type.Unsafe<'allow' | 'deny'>({ type: 'string', enum: ['allow', 'deny'] }),
  reason: Type.Optional(Type.String({ maxLength: 4096, description: 'For the record.' })),
  arguments: Type.Optional(Type.Any({ description: 'Runs instead of what was asked about.' })),
  hash: Type.Optional(Type.String({ maxLength: 128, description: 'The hash that the approver saw.' }))
}

const ApprovalShape = Type.Object({
  id: Type.String(),
  kind: Type.Literal('tool'),
  session: Type.String(),
  scope: Type.String(),
  callId: Type.String(),
  toolName: Type.String(),
  reason: Type.Optional(Type.String()),
  arguments: Type.Any({ description: 'What would run.' }),
  hash: Type.String({ description: 'Of exactly what would run.' }),
  createdAt: Type.Integer(),
  expiresAt: Type.Optional(Type.Integer()),
  state: Type.Unsafe<'pending' | 'decided'>({ type: 'string', enum: ['pending', 'decided'] }),
  outcome: Type.Optional(Type.String()),
  decidedBy: Type.Optional(Type.String()),
  decidedAt: Type.Optional(Type.Integer())
})

const show = ({ decision, ...approval }: Approval): Static<typeof ApprovalShape> => ({
  ...approval,
  kind: 'tool',
  state: decision === undefined ? 'pending' : 'decided',
  ...(decision === undefined ? {} : { outcome: decision.outcome, decidedAt: decision.at }),
  ...(decision?.by === undefined ? {} : { decidedBy: decision.by })
})

type VerdictBody = { decision: 'allow' | 'deny'; reason?: string; arguments?: unknown; hash?: string }

/** Asks that wait for a person (api.md §7). */
export async function approvalRoutes(fastify: FastifyInstance): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()

  const scopesOf = ({ scope }: Principal): ReadonlySet<string> => {
    const own = app.scopes.get(scope)
    return new Set(own === undefined ? [] : app.scopes.subtree(own).map(({ id }) => id))
  }

  /** Decides, for a principal that reaches the approval's scope; for another it does not exist. */
  const decide = async (principal: Principal, id: string, verdict: VerdictBody): Promise<Approval> => {
    const approval = await app.approvals.get(id)
    if (approval === undefined || !scopesOf(principal).has(approval.scope)) throw new RequestError('UNKNOWN_APPROVAL')
    const { arguments: edited, ...rest } = verdict
    const by = principal.label === '' ? principal.tokenId : principal.label
    return app.approvals.decide(
      id,
      { ...rest, ...(edited === undefined ? {} : { arguments: edited as JsonValue }) },
      by
    )
  }

  app.frames.add({
    types: {
      approval: {
        schema: Type.Object(
          {
            type: Type.Literal('approval'),
            id: Type.Optional(ClientId),
            approvalId: Type.String({ maxLength: 64 }),
            ...verdictMembers
          },
          { additionalProperties: false }
        ),
        action: 'approvals:decide',
        dataPaths: ['arguments']
      }
    },
    open: (connection) => ({
      approval: async ({ type: _type, id, approvalId, ...verdict }) => {
        const approval = await decide(connection.principal, approvalId, verdict)
        connection.send({ type: 'approval/decided', ...(id === undefined ? {} : { id }), approval: show(approval) })
      }
    })
  })

  app.get(
    '/approvals',
    {
      config: { action: 'approvals:read' },
      schema: {
        summary: 'Approvals that wait for a decision',
        querystring: Type.Object({ state: Type.Optional(Type.Literal('pending')) }, { additionalProperties: false }),
        response: { 200: Type.Object({ approvals: Type.Array(ApprovalShape) }), ...errorResponses() }
      }
    },
    async ({ principal }) => ({ approvals: app.approvals.list(scopesOf(principal)).map(show) })
  )

  app.post(
    '/approvals/:id',
    {
      config: { action: 'approvals:decide', dataPaths: ['arguments'] },
      schema: {
        summary: 'Decide an approval',
        description:
          'Exactly one decision counts. Edited arguments are validated first, and go through the policies once more.',
        params: Type.Object({ id: Type.String({ maxLength: 64 }) }),
        body: Type.Object(verdictMembers, { additionalProperties: false }),
        response: {
          200: ApprovalShape,
          ...errorResponses('UNKNOWN_APPROVAL', 'ALREADY_DECIDED', 'APPROVAL_STALE', 'INVALID_ARGS')
        }
      }
    },
    async ({ principal, params, body }) => show(await decide(principal, params.id, body))
  )
}
