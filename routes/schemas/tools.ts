import { Type } from '@sinclair/typebox'
import { JsonSchema } from './scopes.ts'

export const Tool = Type.Object(
  {
    name: Type.String(),
    scope: Type.Optional(
      Type.String({
        description: 'Where it is registered; absent where that is out of the reach of the token, and for `run_code`.'
      })
    ),
    description: Type.String(),
    parameters: JsonSchema,
    output: JsonSchema,
    origin: Type.Unsafe<'plugin' | 'code-mode' | 'wire' | 'import' | 'mcp'>({
      type: 'string',
      enum: ['plugin', 'code-mode', 'wire', 'import', 'mcp'],
      description: 'How it came here: `code-mode` is `run_code`, which no scope registers.'
    }),
    executor: Type.Object(
      { kind: Type.String() },
      {
        additionalProperties: true,
        description:
          'What runs it: `in-process`, or the kind of its executor, with more of it where the tool is registered in reach of the token.'
      }
    ),
    limits: Type.Object({
      timeoutMs: Type.Optional(Type.Number({ description: 'Deadline of a call.' })),
      concurrency: Type.Unsafe<'exclusive' | 'parallel' | 'by-arguments'>({
        type: 'string',
        enum: ['exclusive', 'parallel', 'by-arguments'],
        description: 'Whether calls of it may overlap others.'
      })
    }),
    idempotent: Type.Optional(Type.Boolean({ description: 'Whether running it again does no further harm.' })),
    cards: Type.Object(
      { call: Type.Boolean(), result: Type.Boolean() },
      { description: 'Whether its calls and results have cards of their own; else they get the generic one.' }
    )
  },
  { description: 'A tool definition.' }
)
