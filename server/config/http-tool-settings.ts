import { Type } from '@sinclair/typebox'

const closed = { additionalProperties: false }
const integer = (fallback: number, minimum: number, maximum: number, description: string) =>
  Type.Integer({ default: fallback, minimum, maximum, description })
const durationMs = (fallback: number, description: string) => integer(fallback, 1, 2_147_483_647, description)
const text = { minLength: 1 }

const credentialMembers = {
  origins: Type.Array(Type.String({ pattern: '^https?://[^/?#@]+$' }), { minItems: 1 }),
  scopes: Type.Optional(Type.Array(Type.String(text))),
  secretFile: Type.String({ pattern: '^/' })
}
const credentials = Type.Union(
  [
    Type.Object({ type: Type.Literal('bearer'), ...credentialMembers }, closed),
    Type.Object(
      { type: Type.Literal('basic'), user: Type.String({ pattern: '^[ -9;-~]+$' }), ...credentialMembers },
      closed
    ),
    Type.Object(
      {
        type: Type.Literal('apiKey'),
        in: Type.Union([Type.Literal('header'), Type.Literal('query')]),
        name: Type.String({ pattern: "^[A-Za-z0-9!#$%&'*+.^_|~-]+$" }),
        ...credentialMembers
      },
      closed
    )
  ],
  {
    description:
      '{ type: "bearer" }, { type: "basic", user } or { type: "apiKey", in: "header" | "query", name }, each with origins, secretFile (an absolute path) and scopes?'
  }
)

/** The section `httpTools` of the configuration: tools that servers run (api.md §3). */
export const httpToolSettings = Type.Object({
  allowHosts: Type.Array(
    Type.String({ pattern: '^(\\[[0-9A-Fa-f:.]+\\]|(\\*\\.)?[\\w-]+(\\.[\\w-]+)*)(:\\d{1,5})?$' }),
    {
      default: [],
      description:
        'Hosts that tools may be at, as `name`, `name:port`, `*.name`; empty: any whose address may be reached.'
    }
  ),
  allowAddresses: Type.Array(Type.String(text), {
    default: [],
    description: 'Addresses and CIDR ranges that tools may be at although they are not public, as `127.0.0.1`.'
  }),
  timeoutMs: durationMs(120_000, 'Time of a call whose tool has no `timeoutMs`, tries and waits together.'),
  connectTimeoutMs: durationMs(10_000, 'Time to connect to a server.'),
  maxAnswerBytes: integer(8 * 1024 * 1024, 1, 512 * 1024 * 1024, 'Largest answer of a server.'),
  maxConnections: integer(64, 1, 10_000, 'Connections to one server.'),
  maxRetries: integer(2, 0, 10, 'How often a request of an idempotent tool is made again.'),
  signingSecretFile: Type.Optional(
    Type.String({
      ...text,
      description:
        'File of the secret that signing secrets are made from; absent: `http-tools-secret` in `home`, made at the first start.'
    })
  ),
  credentials: Type.Record(Type.String(), credentials, {
    default: {},
    description:
      'What imported tools prove with who calls, by name: only to its `origins`, only for tools of its `scopes` and those below unless an admin imports them.'
  })
})
