import { Type } from '@sinclair/typebox'
import { ClientId, ScopeId, SessionId } from './ids.ts'

/** Where in which log a stream of events begins, and what it carries (api.md §5). */
export const streamFields = {
  session: Type.Optional(SessionId),
  scope: Type.Optional({ ...ScopeId, description: 'This scope and its descendants; those of the token if absent.' }),
  after: Type.Optional(
    Type.Integer({
      minimum: -1,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'The last event seen: a seq with `session`, else a position. -1 replays all, absent is live only.'
    })
  ),
  logId: Type.Optional(Type.String({ maxLength: 128, description: 'The log that `after` is of.' }))
}

/** `tool/result`, or `tool/*` for all that begin so. */
export const EventPattern = Type.String({ pattern: '^[a-z][a-z/-]{0,63}\\*?$|^\\*$' })

export const Subscribe = Type.Object(
  {
    type: Type.Literal('subscribe'),
    id: ClientId,
    ...streamFields,
    events: Type.Optional(Type.Array(EventPattern, { minItems: 1, maxItems: 32 }))
  },
  { additionalProperties: false }
)

export const Unsubscribe = Type.Object(
  { type: Type.Literal('unsubscribe'), id: ClientId },
  { additionalProperties: false }
)
