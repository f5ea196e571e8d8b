import { type Static, Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import type { Approval } from '../server/approvals/approval.ts'
import { inOrder, type Verdict } from '../server/approvals/approvals.ts'
import type { Principal } from '../server/auth/principal.ts'
import { RequestError } from '../server/errors.ts'
import type { JsonValue } from '../server/json/lossless.ts'
import { unsafeNumberPaths } from '../server/json/parse-body.ts'
import { formatPath } from '../server/json/path.ts'
import { errorResponses } from './schemas/error-responses.ts'
import { ClientId, pageQuery } from './schemas/ids.ts'
import type { TypeBoxProvider } from './schemas/type-provider.ts'

const answerMembers = { id: Type.String(), custom: Type.Optional(Type.String({ maxLength: 65_536 })) }

const verdictMembers = {
  decision: Type.Optional(
    Type.Unsafe<'allow' | 'deny'>({
      type: 'string',
      enum: ['allow', 'deny'],
      description: 'Of a question: `deny` dismisses it. Left out with `answers`.'
    })
  ),
  answers: Type.Optional(
    Type.Array(
      Type.Object(
        { ...answerMembers, selected: Type.Optional(Type.Array(Type.String())) },
        { additionalProperties: false }
      ),
      { description: 'Of a question: one answer for each, by its id, with labels of its options, own words, or both.' }
    )
  ),
  reason: Type.Optional(Type.String({ maxLength: 4096, description: 'For the record.' })),
  arguments: Type.Optional(
    Type.Any({ description: 'With `allow`: runs instead of what was asked about, after the policies have seen it.' })
  ),
  hash: Type.Optional(
    Type.String({ maxLength: 128, description: 'The hash that the approver saw: nothing else is approved.' })
  )
}

const VerdictBody = Type.Object(verdictMembers, { additionalProperties: false })

const ApprovalShape = Type.Object({
  id: Type.String(),
  kind: Type.Unsafe<Approval['kind']>({
    type: 'string',
    enum: ['tool', 'question'],
    description: 'A `tool` is to be allowed or denied, a `question` to be answered.'
  }),
  session: Type.String(),
  scope: Type.String(),
  callId: Type.String(),
  toolName: Type.String(),
  reason: Type.Optional(Type.String({ description: 'Why it was asked.' })),
  arguments: Type.Optional(Type.Any({ description: 'What would run. Not of a question.' })),
  questions: Type.Optional(
    Type.Array(Type.Any(), {
      description: 'Of a question, as the model put them: `id`, `question`, `options` and more.'
    })
  ),
  hash: Type.String({ description: 'Of exactly what would run, or is asked.' }),
  createdAt: Type.Integer(),
  expiresAt: Type.Optional(Type.Integer({ description: 'Absent: it never expires.' })),
  state: Type.Unsafe<'pending' | 'decided'>({ type: 'string', enum: ['pending', 'decided'] }),
  outcome: Type.Optional(Type.String()),
  decidedBy: Type.Optional(Type.String()),
  decidedAt: Type.Optional(Type.Integer()),
  decidedReason: Type.Optional(Type.String()),
  decidedArguments: Type.Optional(Type.Any({ description: 'What runs, where the approver edited it.' })),
  answers: Type.Optional(Type.Array(Type.Object({ ...answerMembers, selected: Type.Array(Type.String()) })))
})

const show = ({ decision, arguments: args, ...approval }: Approval): Static<typeof ApprovalShape> => ({
  ...approval,
  ...(approval.kind === 'question'
    ? { questions: (args as { questions: JsonValue[] }).questions }
    : { arguments: args }),
  state: decision === undefined ? 'pending' : 'decided',
  ...(decision === undefined ? {} : { outcome: decision.outcome, decidedAt: decision.at }),
  ...(decision?.by === undefined ? {} : { decidedBy: decision.by }),
  ...(decision?.reason === undefined ? {} : { decidedReason: decision.reason }),
  ...(decision?.arguments === undefined ? {} : { decidedArguments: decision.arguments }),
  ...(decision?.answers === undefined ? {} : { answers: [...decision.answers] })
})

/** A cursor holds its place also when the approval that it names is decided by then. */
const cursorOf = ({ createdAt, id }: Approval): string => `${createdAt}.${id}`

function readCursor(text: string): Pick<Approval, 'createdAt' | 'id'> {
  const dot = text.indexOf('.')
  return { createdAt: Number(text.slice(0, dot)), id: text.slice(dot + 1) }
}

/** Asks that wait for a person (api.md §7). */
export async function approvalRoutes(fastify: FastifyInstance): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()

  const reaches = (principal: Principal, scope: string): boolean => {
    const own = app.scopes.get(principal.scope)
    return own !== undefined && app.scopes.get(scope)?.isWithin(own) === true
  }

  /** Decides, for a principal that reaches the approval's scope; for another it does not exist. `text` is what the verdict came in. */
  const decide = async (
    principal: Principal,
    id: string,
    body: Static<typeof VerdictBody>,
    text: string
  ): Promise<Approval> => {
    const approval = await app.approvals.get(id)
    if (approval === undefined || !reaches(principal, approval.scope)) throw new RequestError('UNKNOWN_APPROVAL')
    const verdict = verdictOf(body)
    if (verdict.arguments !== undefined) refuseUnsafeNumbers(text)
    return app.approvals.decide(id, verdict, principal.label === '' ? principal.tokenId : principal.label)
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
      approval: async ({ type: _type, id, approvalId, ...verdict }, text) => {
        const approval = await decide(connection.principal, approvalId, verdict, text)
        connection.send({ type: 'approval/decided', ...(id === undefined ? {} : { id }), approval: show(approval) })
      }
    })
  })

  app.get(
    '/approvals',
    {
      config: { action: 'approvals:read' },
      schema: {
        summary: 'Approvals and questions that wait for a person, oldest first',
        querystring: Type.Object(
          {
            ...pageQuery,
            state: Type.Optional(Type.Literal('pending', { description: 'The only state that is listed.' })),
            after: Type.Optional(
              Type.String({ pattern: '^[0-9]{1,15}\\.[0-9a-f-]{36}$', description: 'The `next` of the page before.' })
            )
          },
          { additionalProperties: false }
        ),
        response: {
          200: Type.Object({
            approvals: Type.Array(ApprovalShape),
            next: Type.Optional(Type.String({ description: 'The `after` of the next page; absent at the end.' }))
          }),
          ...errorResponses()
        }
      }
    },
    async ({ principal, query }) => {
      const { limit = 100, after } = query
      const cursor = after === undefined ? undefined : readCursor(after)
      const pending = app.approvals.list((scope) => reaches(principal, scope))
      const following = cursor === undefined ? pending : pending.filter((approval) => inOrder(cursor, approval) < 0)
      const page = following.slice(0, limit)
      const last = page.at(-1)
      return {
        approvals: page.map(show),
        ...(last !== undefined && following.length > limit ? { next: cursorOf(last) } : {})
      }
    }
  )

  app.post(
    '/approvals/:id',
    {
      config: { action: 'approvals:decide', dataPaths: ['arguments'], keepsBodyText: true },
      schema: {
        summary: 'Decide an approval, or answer a question',
        description:
          'Exactly one decision counts. Edited arguments are validated first, and go through the policies once more.',
        params: Type.Object({ id: Type.String({ maxLength: 64 }) }),
        body: VerdictBody,
        response: {
          200: ApprovalShape,
          ...errorResponses('UNKNOWN_APPROVAL', 'ALREADY_DECIDED', 'APPROVAL_STALE', 'INVALID_ARGS')
        }
      }
    },
    async ({ principal, params, body, bodyText = '' }) => show(await decide(principal, params.id, body, bodyText))
  )
}

function verdictOf({ decision, answers, arguments: edited, ...rest }: Static<typeof VerdictBody>): Verdict {
  if (decision !== undefined && answers !== undefined) throw new RequestError('BAD_REQUEST', oneOf)
  if (answers !== undefined) return { ...rest, decision: 'answer', answers }
  if (decision === undefined) throw new RequestError('BAD_REQUEST', oneOf)
  return edited === undefined ? { ...rest, decision } : { ...rest, decision, arguments: edited as JsonValue }
}

const oneOf = 'Either `decision` or `answers` is needed.'

/** What a parsed number no longer tells (core.md §2.8). */
function refuseUnsafeNumbers(text: string): void {
  const [path] = unsafeNumberPaths(text, 1).filter(([member]) => member === 'arguments')
  if (path === undefined) return
  const violations = [`"${formatPath('', path.slice(1))}" is an integer beyond 2^53 - 1; send it as a string`]
  throw new RequestError('INVALID_ARGS', undefined, { details: { violations } })
}
