import { Type } from '@sinclair/typebox'

const closed = { additionalProperties: false }
const count = (minimum: number, description: string) => Type.Integer({ minimum, maximum: 1_000_000_000, description })

/** 31 days: a month is the longest that anybody counts over. */
const maxPerMs = 2_678_400_000

const rate = Type.Object(
  {
    requests: count(1, 'Requests in each `perMs`, on average.'),
    perMs: Type.Integer({ minimum: 1, maximum: maxPerMs, description: 'Time over which they are counted.' }),
    burst: Type.Optional(count(1, 'Requests at once after a pause; as many as `requests` if absent.'))
  },
  closed
)

const rates = Type.Optional(Type.Array(rate, { maxItems: 4, description: 'All of them hold.' }))
const queue = Type.Optional(count(0, 'Requests waiting for their turn.'))
const members = { concurrency: Type.Optional(count(0, 'Requests running at a time.')), queue, rates }

/** What holds for one tool or token. */
const limitSet = Type.Object(members, closed)

const toolLimits = (options: { default?: object; description: string }) =>
  Type.Record(Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' }), limitSet, {
    additionalProperties: false,
    maxProperties: 100,
    ...options
  })

/** What holds for one scope with all below it; also the body of `PUT /scopes/{scope}/limits`. */
export const scopeLimits = Type.Object(
  { ...members, tools: Type.Optional(toolLimits({ description: 'Limits of tools, by their names.' })) },
  closed
)

/** The section `limits` (docs/limits.md). */
export const limitSettings = Type.Object({
  perScope: Type.Object(
    { queue, rates },
    {
      ...closed,
      default: {},
      description: 'Limits of each scope, those below it left out, that has none of its own; `queue` and `rates`.'
    }
  ),
  scopes: Type.Record(Type.String(), scopeLimits, {
    default: {},
    description: 'Limits of single scopes with all below them, by the scope’s id.'
  }),
  tools: toolLimits({ default: {}, description: 'Limits of tools over all scopes, by the tool’s name.' }),
  perToken: Type.Object(members, { ...closed, default: {}, description: 'Limits of each token.' }),
  tokens: Type.Record(Type.String(), limitSet, {
    default: {},
    description: 'Limits of single tokens, by the token’s id, in place of `limits.perToken`.'
  }),
  storeMs: Type.Integer({
    default: 5_000,
    minimum: 100,
    maximum: 2_147_483_647,
    description: 'How often it is stored what is used of rates over 10 s and more; a crash forgets that much at most.'
  })
})

/** The section `shedding` (docs/limits.md). */
export const sheddingSettings = Type.Object({
  maxLoopDelayMs: Type.Integer({
    default: 1_000,
    minimum: 0,
    description: 'Mean delay of the event loop beyond which requests are refused; 0 is no limit.'
  }),
  maxHeapBytes: Type.Integer({
    default: 0,
    minimum: 0,
    description: 'JavaScript heap in use beyond which requests are refused; 0 is nine tenths of what V8 would take.'
  }),
  maxRssBytes: Type.Integer({
    default: 0,
    minimum: 0,
    description: 'Resident memory of the process beyond which requests are refused; 0 is no limit.'
  })
})
