import { randomUUID } from 'node:crypto'
import { type TSchema, Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { endTurn, openTurn } from '../server/invocations/turn-control.ts'
import { turnEndKinds, type TurnEndKind } from '../server/sessions/turns.ts'
import type { UserMessage } from '../server/tools/definition.ts'
import type { Principal } from '../server/auth/principal.ts'
import type { Session } from '../server/sessions/session.ts'
import { reachScope, reachSession } from './reach.ts'
import { ContentBlock } from './schemas/calls.ts'
import { errorResponses } from './schemas/error-responses.ts'
import { ScopeId, SessionId } from './schemas/ids.ts'
import type { TypeBoxProvider } from './schemas/type-provider.ts'

const Message = Type.Object(
  {
    id: Type.Optional(Type.String({ minLength: 1, maxLength: 256 })),
    content: Type.Union([Type.String(), Type.Array(ContentBlock, { minItems: 1 })], {
      description: 'A text, or content blocks.'
    }),
    role: Type.Optional(Type.Literal('user')),
    source: Type.Optional(Type.Object({ kind: Type.Literal('user') }, { additionalProperties: false }))
  },
  {
    additionalProperties: false,
    description: 'What the user said; logged as `user/message`. A whole message, as it will stand there, or less of it.'
  }
)

/** A body that may be left out. */
const orNothing = <T extends TSchema>(body: T) => Type.Union([body, Type.Null()])

const reason = Type.Unsafe<TurnEndKind>({ type: 'string', enum: [...turnEndKinds], default: 'completed' })

/** The turns of a session: who holds the loop says when one begins and ends (api.md §2). */
export async function turnRoutes(fastify: FastifyInstance): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()

  app.post(
    '/sessions/:session/turns',
    {
      config: { action: 'sessions:write', startsWork: true },
      schema: {
        summary: 'End the open turn, if any, and open the next',
        description: 'A session that is not there yet is made, in `scope` or else in that of the token.',
        params: Type.Object({ session: SessionId }),
        body: orNothing(
          Type.Object(
            { scope: Type.Optional(ScopeId), message: Type.Optional(Message) },
            { additionalProperties: false }
          )
        ),
        response: {
          201: Type.Object({ session: Type.String(), turn: Type.Integer() }),
          ...errorResponses('UNKNOWN_SCOPE', 'UNKNOWN_SESSION', 'TURN_BUSY')
        }
      }
    },
    async ({ principal, params, body }, reply) => {
      const session = await sessionOf(app, principal, params.session, body?.scope)
      const message = body?.message === undefined ? undefined : userMessage(body.message)
      const turn = await openTurn(app.callEngine, session, message)
      void reply.code(201)
      return { session: session.id, turn }
    }
  )

  app.post(
    '/sessions/:session/turns/:turn/end',
    {
      config: { action: 'sessions:write' },
      schema: {
        summary: 'End the open turn',
        description:
          'While calls of it run it is 409 `TURN_BUSY`, except with `aborted`, which drops the queued contexts, aborts the calls and waits.',
        params: Type.Object({ session: SessionId, turn: Type.Integer({ minimum: 1 }) }),
        body: orNothing(
          Type.Object(
            {
              reason: Type.Optional(reason),
              cause: Type.Optional(Type.String({ maxLength: 1024, description: 'Why, in words.' }))
            },
            { additionalProperties: false }
          )
        ),
        response: {
          200: Type.Object({ session: Type.String(), turn: Type.Integer(), reason }),
          ...errorResponses('UNKNOWN_SESSION', 'TURN_BUSY', 'TURN_CLOSED')
        }
      }
    },
    async ({ principal, params, body }) => {
      const session = await reachSession(app, principal, params.session)
      const { reason: kind = 'completed', cause } = body ?? {}
      await endTurn(app.callEngine, session, { turn: params.turn, kind, ...(cause === undefined ? {} : { cause }) })
      return { session: session.id, turn: params.turn, reason: kind }
    }
  )
}

async function sessionOf(app: FastifyInstance, principal: Principal, id: string, scope?: string): Promise<Session> {
  const known = scope === undefined ? await app.sessions.find(id) : undefined
  // Found, it may still be out of reach; not found, it is made.
  return known === undefined
    ? app.sessions.open(reachScope(app, principal, scope), id)
    : reachSession(app, principal, id)
}

type MessageBody = { id?: string; content: string | { type: string }[] }

const userMessage = ({ id = randomUUID(), content }: MessageBody): UserMessage => ({
  id,
  role: 'user',
  content: typeof content === 'string' ? [{ type: 'text', text: content }] : content,
  source: { kind: 'user' }
})
