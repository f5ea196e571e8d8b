import { Type } from '@sinclair/typebox'
import type { CallAnswer as Answer } from '../../server/invocations/answer.ts'
import type { CallState as State } from '../../server/invocations/live-call.ts'
import { ScopeId, SessionId } from './ids.ts'

export const CallId = Type.String({
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

/** Far more than a turn has, and far from where numbers are rounded: steps are counted on from the highest. */
const maxStep = 1_000_000_000

const placeMembers = {
  scope: Type.Optional(ScopeId),
  session: Type.Optional(SessionId),
  turn: Type.Optional(Type.Integer({ minimum: 1, description: 'The open turn, or the next one, which opens it.' })),
  step: Type.Optional(Type.Integer({ minimum: 1, maximum: maxStep, description: 'A step to open or to join.' }))
}

const onDisconnect = Type.Optional(
  Type.Unsafe<'continue' | 'abort'>({
    type: 'string',
    enum: ['continue', 'abort'],
    description: 'What becomes of a call when its last waiting caller leaves. Default: it goes on if it has a `callId`.'
  })
)

export const InvokeBody = Type.Object(
  { ...placeMembers, ...callMembers, onDisconnect },
  { additionalProperties: false }
)

/** Calls of one batch: more would be more than a model writes in one step. */
const maxBatchCalls = 1_000

export const BatchBody = Type.Object(
  {
    ...placeMembers,
    calls: Type.Array(Type.Object(callMembers, { additionalProperties: false }), {
      minItems: 1,
      maxItems: maxBatchCalls,
      description: 'In the order in which the model wrote them.'
    }),
    onDisconnect
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

export const BatchAnswer = Type.Object(
  {
    results: Type.Array(CallAnswer, { description: 'In model order.' }),
    additionalContexts: Type.Array(UserMessage, { description: 'Those of all results.' }),
    concluded: Type.Boolean({ description: 'Whether some call concluded the turn.' })
  },
  { description: 'The outcomes of one model step.' }
)

const CallState = Type.Unsafe<State>({
  type: 'string',
  enum: ['queued', 'awaiting-approval', 'running', 'done']
})

export const CallReport = Type.Object(
  { callId: Type.String(), session: Type.String(), state: CallState, result: Type.Optional(CallAnswer) },
  { description: 'Where a call stands; its result once it is done.' }
)

const ErrorShape = Type.Object({
  message: Type.String(),
  info: Type.Optional(Type.Object({ name: Type.String(), code: Type.String() }))
})

export const DryRunReport = Type.Object(
  {
    decision: Type.Unsafe<'allow' | 'deny' | 'ask'>({ type: 'string', enum: ['allow', 'deny', 'ask'] }),
    reason: Type.Optional(Type.String()),
    violations: Type.Optional(
      Type.Array(Type.String(), {
        description: 'What is wrong with the arguments: the call would fail with `INVALID_ARGS`.'
      })
    ),
    error: Type.Optional(ErrorShape)
  },
  { description: 'What the call would meet before its body (`?dryRun=true`).' }
)
