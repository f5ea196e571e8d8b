import { Type } from '@sinclair/typebox'

export const StoredEvent = Type.Object(
  {
    type: Type.String(),
    session: Type.String(),
    seq: Type.Integer({ description: 'Counts within the session, from 0, without a gap.' }),
    position: Type.Integer({ description: 'Grows over the whole server.' }),
    time: Type.Integer({ description: 'Epoch milliseconds.' }),
    data: Type.Any(),
    surfaceOp: Type.Optional(Type.Literal('append')),
    sourceEventSeqs: Type.Optional(Type.Array(Type.Integer())),
    view: Type.Optional(Type.Any({ description: 'The card that shows the event, where it has one.' }))
  },
  { description: 'An event of a session’s log.' }
)
