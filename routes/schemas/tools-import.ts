import { Type } from '@sinclair/typebox'
import { ScopeId } from './ids.ts'

const Patterns = Type.Array(Type.String({ minLength: 1, maxLength: 500 }), { minItems: 1, maxItems: 500 })

export const ImportBody = Type.Object(
  {
    scope: Type.Optional(ScopeId),
    document: Type.Any({
      description: 'An OpenAPI document of version 3.0 or 3.1: an object, or its text as JSON or YAML.'
    }),
    prefix: Type.Optional(Type.String({ maxLength: 32, description: 'Put before each name.' })),
    baseUrl: Type.Optional(
      Type.String({ description: 'Where the API is, whatever the `servers` of the document say.' })
    ),
    auth: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 128,
        description: 'The name of configured credentials (`httpTools.credentials`), for operations that ask for any.'
      })
    ),
    include: Type.Optional({
      ...Patterns,
      description:
        'Which operations, by `operationId`, `METHOD /path` or `tag:name`, with `*` for any text; absent: all.'
    }),
    exclude: Type.Optional({ ...Patterns, description: 'Which not.' }),
    timeoutMs: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 2_147_483_647, description: 'Deadline of each call.' })
    ),
    dryRun: Type.Optional(Type.Boolean({ description: 'Only reports: registers nothing.' }))
  },
  { additionalProperties: false }
)

export const ImportAnswer = Type.Object(
  {
    scope: Type.String(),
    tools: Type.Array(Type.Object({ name: Type.String(), operation: Type.String() }), {
      description: 'Registered; those of the same names that an earlier import made are replaced.'
    }),
    quarantined: Type.Array(
      Type.Object({
        name: Type.String(),
        hash: Type.String(),
        changes: Type.Array(Type.String()),
        since: Type.Integer({ description: 'Epoch milliseconds.' })
      }),
      { description: 'Hidden, as they say something else than when they were first seen, until they are accepted.' }
    ),
    skipped: Type.Array(Type.Object({ operation: Type.String(), reason: Type.String() })),
    notes: Type.Array(Type.String(), { description: 'What was left out of tools.' })
  },
  { description: 'What became of the operations of a document.' }
)
