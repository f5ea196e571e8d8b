import { type Static, Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import type { Policy } from '../server/approvals/policy.ts'
import { type SandboxMode, sandboxModes } from '../server/backends/sandbox/sandbox.ts'
import { reachSession } from './reach.ts'
import { errorResponses } from './schemas/error-responses.ts'
import { SessionId } from './schemas/ids.ts'
import type { TypeBoxProvider } from './schemas/type-provider.ts'

const Mode = Type.Unsafe<SandboxMode>({
  type: 'string',
  enum: [...sandboxModes],
  description: 'What commands and file tools may write.'
})

const Approval = Type.Unsafe<Policy>({
  type: 'string',
  enum: ['ask', 'never'],
  description: 'Whether people are asked; `never` refuses what would be asked.'
})

const Preset = Type.Object(
  {
    preset: Type.String(),
    sandbox: Mode,
    approval: Approval,
    name: Type.Optional(Type.String({ description: 'For people.' })),
    description: Type.Optional(Type.String())
  },
  { description: 'A name for a sandbox mode together with an approval policy.' }
)

const Permissions = Type.Object(
  {
    preset: Type.String({ description: 'The preset that says just this, else `custom`.' }),
    sandbox: Mode,
    approval: Approval
  },
  { description: 'What holds in a session.' }
)

const ChangeBody = Type.Object(
  {
    preset: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
    sandbox: Type.Optional(Mode),
    approval: Type.Optional(Approval)
  },
  { additionalProperties: false, minProperties: 1 }
)

const sessionParams = Type.Object({ session: SessionId })

/** Permission presets, and what holds in a session (backends.md §11.1, §12). */
export async function permissionRoutes(fastify: FastifyInstance): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()

  app.get(
    '/presets',
    {
      config: { action: 'events:read' },
      schema: {
        summary: 'The permission presets',
        description: 'Empty where nothing is confined.',
        response: { 200: Type.Object({ presets: Type.Array(Preset) }), ...errorResponses() }
      }
    },
    async () => ({ presets: [...app.presets.offered] as Static<typeof Preset>[] })
  )

  app.get(
    '/sessions/:session/permissions',
    {
      config: { action: 'events:read' },
      schema: {
        summary: 'The permissions of a session',
        params: sessionParams,
        response: { 200: Permissions, ...errorResponses('UNKNOWN_SESSION', 'SANDBOX_MISSING') }
      }
    },
    async ({ principal, params }) => app.presets.current(await reachSession(app, principal, params.session))
  )

  app.put(
    '/sessions/:session/permissions',
    {
      config: { action: 'permissions:set', startsWork: true },
      schema: {
        summary: 'Change the permissions of a session',
        description:
          'To those of a preset, or one by one; what is left out stays. It holds for the calls that begin after it, and the model is told with the next step.',
        params: sessionParams,
        body: ChangeBody,
        response: {
          200: Permissions,
          ...errorResponses('UNKNOWN_SESSION', 'UNKNOWN_PRESET', 'SANDBOX_MISSING', 'SANDBOX_IN_USE')
        }
      }
    },
    async ({ principal, params, body }) =>
      app.presets.set(await reachSession(app, principal, params.session), body, principal.role)
  )
}
