import { type Static, Type } from '@sinclair/typebox'
import { ContentBlock } from './calls.ts'
import { ClientId, entityIdPattern, ScopeId } from './ids.ts'
import { wireToolDataPaths, wireToolMembers } from './wire-tools.ts'

/** One tool of a `provide` frame: a wire tool without what runs it. */
export const ProvidedTool = Type.Object(wireToolMembers, { additionalProperties: false })

/** The tools are looked at one by one, as one that is wrong stops none of the others. */
export const ProvideFrame = Type.Object(
  {
    type: Type.Literal('provide'),
    id: Type.Optional(ClientId),
    providerId: Type.String({ pattern: entityIdPattern }),
    scope: Type.Optional(ScopeId),
    tools: Type.Array(Type.Object({ name: Type.String() }, { additionalProperties: true }))
  },
  { additionalProperties: false }
)

/** Where in it keys such as `__proto__` are data (api.md §8). */
export const provideDataPaths = wireToolDataPaths.map((path) => `tools.*.${path}`)

/** The server's own are UUIDs. */
const DispatchId = Type.String({ minLength: 1, maxLength: 64 })

const resultMembers = { type: Type.Literal('call/result'), dispatchId: DispatchId }

export const CallResultFrame = Type.Union([
  Type.Object(
    { ...resultMembers, value: Type.Any(), content: Type.Optional(Type.Array(ContentBlock)) },
    { additionalProperties: false }
  ),
  Type.Object(
    {
      ...resultMembers,
      error: Type.Object(
        { message: Type.String(), code: Type.Optional(Type.String({ pattern: '^[A-Z][A-Z0-9_]{0,63}$' })) },
        { additionalProperties: false }
      )
    },
    { additionalProperties: false }
  )
])

export const CallProgressFrame = Type.Object(
  { type: Type.Literal('call/progress'), dispatchId: DispatchId, chunk: Type.String() },
  { additionalProperties: false }
)

export type Provide = Static<typeof ProvideFrame>
