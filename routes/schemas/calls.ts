import { Type } from '@sinclair/typebox'
import type { CallAnswer as Answer } from '../../server/invocations/answer.ts'
import { ScopeId, SessionId } from './ids.ts'

const CallId = Type.String({
  minLength: 1,
  maxLength: 256,
  description: 'Makes the call idempotent within its session.'
})

const callMembers = {
  callId: Type.Optional(CallId),
  name: Type.String({ minLength: 1, maxLength: 256, description: 'Name of the tool.' }),
  arguments: Type.Optional(Type.Any({ description: 'Any JSON value; absent: `{}`.' })),
  rawArguments: Type.Optional(
    Type.String({ description: 'The arguments exactly as a model wrote them, instead of `arguments`.' })
  )
}

const placeMembers = {
  scope: Type.Optional(ScopeId),
  session: Type.Optional(SessionId),
  turn: Type.Optional(Type.Integer({ minimum: 1, description: 'The open turn, or the next one, which opens it.' })),
  step: Type.Optional(Type.Integer({ minimum: 1, description: 'A step to open or to join.' }))
}

export const InvokeBody = Type.Object(
  {
    ...placeMembers,
    ...callMembers,
    onDisconnect: Type.Optional(
      Type.Unsafe<'continue' | 'abort'>({
        type: 'string',
        enum: ['continue', 'abort'],
        description:
          'What becomes of the call when its last waiting caller leaves. Default: it goes on if it has a `callId`.'
      })
    )
  },
  { additionalProperties: false }
)

export const ContentBlock = Type.Object({ type: Type.String() }, { additionalProperties: true })

export const UserMessage = Type.Object(
  {
    id: Type.String(),
    role: Type.Literal('user'),
    content: Type.Array(ContentBlock),
    source: Type.Object({ kind: Type.String() }, { additionalProperties: true })
  },
  { description: 'A message for the model’s history.' }
)

export const CallAnswer = Type.Unsafe<Answer>(
  Type.Object(
    {
      callId: Type.String(),
      name: Type.String(),
      scope: Type.String(),
      session: Type.String(),
      callSeq: Type.Integer({ description: 'Seq of the `tool/call` event; -1 for a call that never started.' }),
      resultSeq: Type.Integer({ description: 'Seq of the `tool/result` event.' }),
      startedAt: Type.Integer({ description: 'Epoch milliseconds.' }),
      durationMs: Type.Number(),
      isError: Type.Boolean(),
      value: Type.Optional(Type.Any({ description: 'The canonical value; only of a success.' })),
      error: Type.Optional(
        Type.Object({
          message: Type.String(),
          info: Type.Optional(Type.Object({ name: Type.String(), code: Type.String() })),
          effect: Type.Unsafe<'none' | 'unknown' | 'completed'>({
            type: 'string',
            enum: ['none', 'unknown', 'completed'],
            description: 'What is known of the side effect.'
          }),
          retryable: Type.Boolean({ description: 'The same call under a new `callId` may succeed and does no harm.' })
        })
      ),
      content: Type.Array(ContentBlock, { description: 'What a model is shown.' }),
      meta: Type.Optional(Type.Any()),
      additionalContexts: Type.Optional(Type.Array(UserMessage)),
      concludesTurn: Type.Optional(Type.Literal(true)),
      replayed: Type.Optional(Type.Literal(true, { description: 'The stored answer of an earlier call of this id.' }))
    },
    { description: 'The outcome of a call: a success, or a failure of the tool.' }
  )
)
