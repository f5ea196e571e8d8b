import { Type } from '@sinclair/typebox'

/** A sandbox mode (backends.md §11.1) inside of a setting. */
export const sandboxMode = Type.Union(
  [Type.Literal('read-only'), Type.Literal('workspace-write'), Type.Literal('danger-full-access')],
  { description: 'read-only, workspace-write or danger-full-access' }
)

/** One permission preset (backends.md §12). */
const preset = Type.Object(
  {
    sandbox: sandboxMode,
    approval: Type.Union([Type.Literal('ask'), Type.Literal('never')], { description: 'ask or never' }),
    name: Type.Optional(Type.String({ minLength: 1, maxLength: 128 })),
    description: Type.Optional(Type.String({ minLength: 1, maxLength: 1_024 }))
  },
  { additionalProperties: false }
)

/** Presets by name; no name is all digits, for those would lose their place in the table. */
export const presetTable = Type.Record(Type.String({ pattern: '^[a-z][a-z0-9-]{0,63}$' }), preset, {
  additionalProperties: false,
  default: {
    'workspace-write': { sandbox: 'workspace-write', approval: 'ask' },
    'danger-full-access': { sandbox: 'danger-full-access', approval: 'never' },
    'read-only': { sandbox: 'read-only', approval: 'ask' }
  },
  description: 'Names for a sandbox mode together with an approval policy; `custom` is reserved.'
})
