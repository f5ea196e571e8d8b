import { Type } from '@sinclair/typebox'

/** Ids of scopes and sessions, which clients choose (api.md §2). */
export const entityIdPattern = '^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$'

/** The default session of a scope is called after it, however long its id (api.md §2). */
const sessionIdPattern = entityIdPattern.replace('$', '(:default)?$')

export const ScopeId = Type.String({ pattern: entityIdPattern, description: 'Id of a scope.' })
export const SessionId = Type.String({ pattern: sessionIdPattern, description: 'Id of a session.' })

/** The id that a client gives to something on its socket: printed back, never looked at. */
export const ClientId = Type.String({ minLength: 1, maxLength: 256 })

/** Page size and cursor of every list (api.md, head). */
export const pageQuery = {
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 500, default: 100, description: 'At most so many; 100 if absent.' })
  )
}
