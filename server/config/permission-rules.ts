import { Type } from '@sinclair/typebox'

const text = Type.String({ minLength: 1 })
const texts = Type.Array(text, { minItems: 1 })
const closed = { additionalProperties: false }

/** One place of a command line: a pattern, patterns of which one must do, or, at the end, what the words that are left must be. */
const word = Type.Union(
  [
    Type.String(),
    Type.Array(Type.String(), { minItems: 1 }),
    Type.Object({ rest: texts }, closed),
    Type.Object({ some: texts }, closed)
  ],
  { description: 'a pattern, a list of patterns, { "rest": [patterns] } or { "some": [patterns] }' }
)

const condition = Type.Object(
  {
    path: text,
    equals: Type.Optional(Type.Unknown()),
    oneOf: Type.Optional(Type.Array(Type.Unknown(), { minItems: 1 })),
    matches: Type.Optional(Type.String()),
    startsWith: Type.Optional(text),
    exists: Type.Optional(Type.Literal(true)),
    absent: Type.Optional(Type.Literal(true)),
    lessThan: Type.Optional(Type.Number()),
    moreThan: Type.Optional(Type.Number())
  },
  closed
)

/** One rule of the permissions, as docs/permissions.md describes it. What a schema cannot say is checked when the rules are read. */
export const permissionRule = Type.Object(
  {
    name: text,
    decision: Type.Union([Type.Literal('allow'), Type.Literal('deny'), Type.Literal('ask')], {
      description: 'allow, deny or ask'
    }),
    tools: Type.Union([text, texts], { description: 'a pattern or a list of patterns' }),
    arguments: Type.Optional(Type.Array(condition, { minItems: 1 })),
    command: Type.Optional(Type.Object({ words: Type.Array(word, { minItems: 1 }) }, closed)),
    reason: Type.Optional(text)
  },
  closed
)
