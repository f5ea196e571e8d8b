import type { FastifyInstance } from 'fastify'
import type { Principal } from '../server/auth/principal.ts'
import { RequestError } from '../server/errors.ts'
import type { Scope } from '../server/scopes/scope.ts'
import type { Session } from '../server/sessions/session.ts'

/** The scope of a request: the given one, else the token's. Outside the token's reach it does not exist (api.md §1). */
export function reachScope({ scopes }: FastifyInstance, principal: Principal, id: string = principal.scope): Scope {
  const scope = scopes.get(id)
  const own = scopes.get(principal.scope)
  if (scope === undefined || own === undefined || !scope.isWithin(own)) {
    throw new RequestError('UNKNOWN_SCOPE', `There is no scope "${id}".`)
  }
  return scope
}

/** The live or stored session of this id, if the principal reaches its scope; else it does not exist. */
export async function reachSession(app: FastifyInstance, principal: Principal, id: string): Promise<Session> {
  const session = await app.sessions.find(id)
  const own = app.scopes.get(principal.scope)
  if (session === undefined || own === undefined || !session.scope.isWithin(own)) {
    throw new RequestError('UNKNOWN_SESSION', `There is no session "${id}".`)
  }
  return session
}
