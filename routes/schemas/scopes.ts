import { type Static, Type } from '@sinclair/typebox'
import { type Mode as ModeName, modes } from '../../server/tools/presentation.ts'
import { providerFormats, type ProviderFormat } from '../../server/tools/provider-formats.ts'
import { ScopeId } from './ids.ts'

export const Mode = Type.Unsafe<ModeName>({
  type: 'string',
  enum: [...modes],
  description: 'How the tools are shown to models: as they are, only through programs, or both.'
})

const names = (description: string) =>
  Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 256 }), { maxItems: 1_000, description }))

const maskMembers = {
  allow: names('Of the inherited tools only these stay.'),
  deny: names('These inherited tools go.')
}

export const Mask = Type.Object(maskMembers, {
  additionalProperties: false,
  description: 'A filter over the tools that the scope inherits; one of the two lists at least.'
})

export const Restriction = Type.Object({ id: Type.String(), ...maskMembers }, { description: 'A mask of a scope.' })

/** A year: nobody waits longer to clear up. */
const maxTtlMs = 31_536_000_000

const ttlMs = Type.Optional(
  Type.Integer({ minimum: 1, maximum: maxTtlMs, description: 'Idle time until the scope is disposed.' })
)

export const ScopeBody = Type.Object(
  {
    parent: Type.Optional({
      ...ScopeId,
      description: 'Fixed once the scope is there; the scope of the token if absent.'
    }),
    presentAs: Type.Optional(Mode),
    restrict: Type.Optional(Type.Array(Mask, { maxItems: 1_000 })),
    ttlMs
  },
  { additionalProperties: false }
)

export const Scope = Type.Object(
  {
    id: Type.String(),
    parent: Type.Optional(Type.String({ description: 'Absent where it is out of the reach of the token.' })),
    mode: Mode,
    presentAs: Type.Optional(Type.Union([Mode], { description: 'The mode that was declared for this very scope.' })),
    restrictions: Type.Optional(
      Type.Array(Restriction, { description: 'The masks set over the wire; shown to those who may set them.' })
    ),
    ttlMs
  },
  { description: 'A scope.' }
)

export type ScopeView = Static<typeof Scope>

export const Format = Type.Optional(
  Type.Unsafe<ProviderFormat>({
    type: 'string',
    enum: [...providerFormats],
    default: 'native',
    description: 'The provider whose API the schemas are for.'
  })
)

export const FormatNote = Type.Object(
  { tool: Type.String(), path: Type.String(), note: Type.String() },
  { description: 'A difference between what the tool declares and what the format can say.' }
)

export const JsonSchema = Type.Record(Type.String(), Type.Any())
