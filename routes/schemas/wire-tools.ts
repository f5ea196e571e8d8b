import { Type } from '@sinclair/typebox'
import { ScopeId } from './ids.ts'
import { JsonSchema } from './scopes.ts'

/** What a client says of a tool besides what runs it; a bad name or schema is 422, so it is not looked at here (api.md §3). */
export const wireToolMembers = {
  name: Type.String({ description: '1 to 64 of `A-Z a-z 0-9 _ -`; `run_code` is reserved.' }),
  description: Type.String({ description: 'What the model is told of it.' }),
  parameters: Type.Unsafe<typeof JsonSchema.static>({
    ...JsonSchema,
    description: 'JSON Schema (2020-12 or draft-07) of the arguments; its root has `"type": "object"`.'
  }),
  output: Type.Optional(
    Type.Object(
      { schema: JsonSchema },
      { additionalProperties: false, description: 'What it returns; absent: any JSON.' }
    )
  ),
  timeoutMs: Type.Optional(Type.Number({ description: 'Deadline of a call.' })),
  concurrency: Type.Optional(
    Type.Unsafe<'parallel' | 'exclusive'>({
      type: 'string',
      enum: ['parallel', 'exclusive'],
      default: 'exclusive',
      description: 'Whether calls of it may overlap others.'
    })
  ),
  idempotent: Type.Optional(
    Type.Boolean({
      description: 'Whether running it again with the same arguments does no further harm: only then is a call retried.'
    })
  )
}

const Executor = Type.Object(
  {
    kind: Type.Unsafe<'http' | 'command'>({
      type: 'string',
      enum: ['http', 'command'],
      description:
        '`http` sends each call to `url`; `command`, for an admin, runs `argv`. Tools of a `client` are registered over its socket.'
    }),
    url: Type.Optional(Type.String({ description: 'For `http`: where calls are sent.' })),
    argv: Type.Optional(
      Type.Array(Type.String(), {
        minItems: 1,
        description:
          'For `command`: the program and its arguments. No shell; arguments of the call are JSON on standard input, one JSON value is the output.'
      })
    )
  },
  { additionalProperties: false, description: 'What runs it.' }
)

export const WireToolBody = Type.Object(
  {
    scope: Type.Optional({ ...ScopeId, description: 'Where it is registered; the scope of the token if absent.' }),
    ...wireToolMembers,
    executor: Executor
  },
  { additionalProperties: false, description: 'A tool to register.' }
)

/** Where in the body of `POST /tools` keys such as `__proto__` are data (api.md §8). */
export const wireToolDataPaths = ['parameters', 'output.schema']

export const RegisteredTool = Type.Object({
  name: Type.String(),
  scope: Type.String(),
  executor: Type.Object({ kind: Type.String() }, { additionalProperties: true }),
  signingSecret: Type.Optional(
    Type.String({
      description: 'For `http`: what its server verifies `X-Toolwright-Signature` with. It is shown here alone.'
    })
  )
})
